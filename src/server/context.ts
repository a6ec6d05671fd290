/** Shared by the routes of the server: its parts and limits, the caller, and the type of a route handler, a function from a call to
 *  its reply. */

import type { FastifyReply, FastifyRequest } from "fastify";
import type { RouteName } from "../contract/routes.ts";
import { LIMIT } from "../contract/wire.ts";
import type { Scope } from "../core/access.ts";
import type { SettingFact } from "../core/job/views.ts";
import { MAX_NAME } from "../core/names.ts";
import type { DialectSettings } from "../dialects/settings.ts";
import type { Engine } from "../engine/engine.ts";
import { storable } from "../lib/text.ts";
import type { Blobs } from "../store/blobs.ts";
import type { KeyRing } from "./key-ring.ts";
import type { ServerLog } from "./log.ts";
import type { TokenBook } from "./tokens.ts";

/** Quotas of one token, and the size of one reply. */
export interface ServerLimits {
  /** Different retry policies of the jobs of one request. */
  readonly policiesPerRequest: number;
  /** Lanes (combinations of queue, kind and labels) that one token and its jobs may create in a namespace. */
  readonly lanesPerToken: number;
  /** All lanes of a namespace. Claims scan those with jobs, and every process keeps all of them in memory. */
  readonly lanesPerNamespace: number;
  /** Live sessions of one token: each is checked every second, and holds claims open. */
  readonly sessionsPerToken: number;
  /** Characters of a page of events or files; the page ends with the entry that exceeds it. */
  readonly pageChars: number;
}

export const SERVER_LIMITS: ServerLimits = {
  policiesPerRequest: LIMIT.policies,
  // Half of the namespace's, so that one token cannot use up the quota of all.
  lanesPerToken: 5_000,
  lanesPerNamespace: 10_000,
  // All workers of a fleet often use one token.
  sessionsPerToken: 2_000,
  // Pages of small entries stay far below it.
  pageChars: 4_194_304,
};

export interface ServerParts {
  readonly engine: Engine;
  readonly blobs: Blobs;
  readonly tokens: TokenBook;
  /** Signs session keys and job tokens; the same for all servers of a store. */
  readonly keys: KeyRing;
  readonly log: ServerLog;
  readonly version: string;
  readonly storeKind: "sqlite" | "postgres";
  /** The effective settings of this process, for `perdure config`; without secrets. */
  readonly settings: readonly SettingFact[];
  /** Defaults for files of other systems. */
  readonly dialects: DialectSettings;
  /** Maximum bytes of all files of one attempt. */
  readonly outputLimit: number;
  readonly limits: ServerLimits;
  /** Aborted when the server shuts down: held requests are answered at once. */
  readonly stopping: AbortSignal;
}

/** The caller, as identified by its token. */
export interface Principal {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Null: all. */
  readonly namespace: string | null;
  /** The attempt of a job token, which only sees the job and its descendants. */
  readonly job?: { readonly id: string; readonly attempt: number };
  /** The caller has no token. */
  readonly isAnonymous?: true;
}

export interface RouteCall {
  readonly who: Principal;
  /** The namespace of the token, or of the header. */
  readonly namespace: string;
  readonly params: Readonly<Record<string, string>>;
  // Checked by the route's schema before the handler is called.
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
  /** The unparsed JSON body: inputs of jobs are stored byte for byte. */
  readonly text: string;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Aborted when the client has disconnected, its token was revoked or has expired, or the server shuts down. */
  readonly signal: AbortSignal;
  /** Whether the caller's token has ended since the signal was first used. The handler should undo what it has begun; the server
   *  answers 401 instead of its result. */
  readonly isTokenOver: boolean;
}

/** The result is sent as JSON; a `JsonText` unchanged; undefined as 204. A handler that has hijacked the reply returns HIJACKED. */
export type RouteHandler = (call: RouteCall) => Promise<unknown>;
export type RouteHandlers = Partial<Readonly<Record<RouteName, RouteHandler>>>;

/** JSON text that is sent unchanged, so that payloads stay byte for byte the same. */
export class JsonText {
  readonly text: string;
  /** Instead of the route's own status. */
  readonly status: number | undefined;

  constructor(text: string, status?: number) {
    this.text = text;
    this.status = status;
  }
}

/** Bytes to be downloaded as an attachment: they come from untrusted jobs, and a browser must not render them. */
export class Download {
  readonly source: AsyncIterable<Uint8Array>;
  readonly headers: Readonly<Record<string, string>>;

  constructor(source: AsyncIterable<Uint8Array>, headers: Readonly<Record<string, string>> = {}) {
    this.source = source;
    this.headers = headers;
  }
}

export const HIJACKED = Symbol("the handler answers by itself");

/** The caller of a command, for its event: the name and the id of the token, by which it can be revoked. Never the secret. */
export function operator({ name, id, job }: Pick<Principal, "name" | "id" | "job">): string {
  // With a job token the caller is the job.
  return storable(job === undefined ? `token:${name} (${id})` : `job:${id}`, MAX_NAME);
}
