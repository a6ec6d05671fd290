/** Calls that exist only on a server: its tokens, settings and status. */
import type { AccessToken, Scope } from "../core/access.ts";
import type { Duration } from "../core/duration.ts";
import type { ServerSettings } from "../core/job/views.ts";
import type { ClientHttpLink } from "./http-call.ts";
import { allPages } from "./pages.ts";

/** A token without its secret.
 *  @example
 *  const tokens: TokenInfo[] = await client.admin.listTokens(); */
export type TokenInfo = Omit<AccessToken, "hash">;

/** A token to create.
 *  @example
 *  const wanted: NewToken = { name: "ci", scopes: ["submit"], expiresIn: "90d" };
 *  const { token } = await client.admin.createToken(wanted); */
export interface NewToken {
  /** For people; events of commands that were given with the token name it. */
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Left out or null: all namespaces. */
  readonly namespace?: string | null;
  /** Left out: it never expires. */
  readonly expiresIn?: Duration;
}

/** Failures of a store that is full, unreachable or broken, as a server counts them.
 *  @example
 *  const { storeTrouble } = await client.admin.status(); */
export interface StoreTrouble {
  readonly kind: "full" | "unavailable" | "io";
  /** For an admin of all namespaces only. */
  readonly cause?: string;
  readonly forMs: number;
  /** How many requests, and background rounds of the engine, failed because of it. */
  readonly requests: number;
  readonly rounds: number;
}

/** Open: a server may add fields.
 *  @example
 *  const { store, now }: ServerStatus = await client.admin.status(); */
export interface ServerStatus {
  readonly now: number;
  readonly store: "sqlite" | "postgres";
  /** Why the store takes no writes; null if nothing is wrong. Only an admin of all namespaces is shown the cause with its path. */
  readonly storeFault?: string | null;
  /** Why the server cannot read its signing secrets again, and continues with those it has; null if nothing is wrong. */
  readonly secretFault?: string | null;
  /** Why the store fails some calls, as on a full disk; null if nothing is wrong. */
  readonly storeTrouble?: StoreTrouble | null;
  readonly [more: string]: unknown;
}

/** The version of a server, and of its API.
 *  @example
 *  const { version, api }: ServerVersion = await client.admin.version(); */
export interface ServerVersion {
  readonly name: "perdure";
  readonly version: string;
  readonly api: number;
}

/** What the token of this client may do.
 *  @example
 *  const { name, scopes }: Identity = await client.admin.identity(); */
export type Identity = Pick<AccessToken, "id" | "name" | "scopes" | "namespace">;

/** Calls that exist only on a server: its tokens, settings and status.
 *  @example
 *  const admin: Admin = client.admin;
 *  await admin.revokeToken("tok_…"); */
export interface Admin {
  /** Creates a token. It is shown only this once. */
  createToken(token: NewToken): Promise<{ readonly token: string; readonly info: TokenInfo }>;
  listTokens(): Promise<TokenInfo[]>;
  revokeToken(id: string): Promise<void>;
  status(): Promise<ServerStatus>;
  /** The settings of the process that answers, without secrets. */
  settings(): Promise<ServerSettings>;
  version(): Promise<ServerVersion>;
  identity(): Promise<Identity>;
}

export function adminOf(link: ClientHttpLink): Admin {
  return {
    createToken: (token) => link.json("createToken", { body: JSON.stringify(token) }),
    listTokens() {
      type TokensReply = { readonly tokens: TokenInfo[]; readonly next?: string | null };
      return allPages(async (query) => {
        const { tokens, next } = await link.json<TokensReply>("listTokens", { query });
        return { items: tokens, next };
      });
    },
    revokeToken: (id) => link.json("revokeToken", { params: { id } }),
    settings: () => link.json("getSettings"),
    status: () => link.json("getStatus"),
    version: () => link.json("getVersion"),
    identity: () => link.json("getIdentity"),
  };
}
