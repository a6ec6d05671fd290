/** The server itself: its tokens, settings and status. */
import { Type } from "typebox";
import { Count, closed, Name, type Operation, orNull, ScopeName, Span, words } from "../schemas.ts";
import { LIMIT } from "../wire.ts";

const TokenInfo = closed({
  id: Type.String(),
  name: Type.String(),
  scopes: Type.Array(ScopeName),
  namespace: orNull(Name),
  createdAt: Type.Number(),
  expiresAt: orNull(Type.Number()),
  revokedAt: orNull(Type.Number()),
});

export const SERVER_OPERATIONS = {
  createToken: {
    ...{ tag: "server", summary: "Create a token; it is shown only this once", status: 201 },
    body: closed({
      name: Name,
      scopes: Type.Array(ScopeName, { minItems: 1, maxItems: 4 }),
      namespace: Type.Optional(orNull(Name)),
      expiresIn: Type.Optional(Span),
    }),
    reply: closed({ token: Type.String(), info: TokenInfo }),
  },
  listTokens: {
    tag: "server",
    summary: "Tokens, without their secrets, oldest first, a page at a time",
    description: "`next` is the `after` of the next page, null at the end.",
    query: closed({
      after: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: "A token's id." })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT.tokens })),
    }),
    reply: closed({ tokens: Type.Array(TokenInfo), next: orNull(Type.String()) }),
  },
  revokeToken: {
    ...{
      tag: "server",
      summary: "Revoke a token",
      params: closed({ id: Type.String({ minLength: 1, maxLength: 100 }) }),
    },
    ...{ reply: null, status: 204 },
  },
  getDialects: {
    ...{ tag: "server", summary: "The defaults for files of other systems" },
    reply: Type.Record(Type.String(), Type.Unknown(), { description: "The settings of each dialect, by its group." }),
    jobToken: true,
  },
  prune: {
    ...{ tag: "server", summary: "Delete jobs that are past their retention now" },
    reply: closed({ jobs: Count }),
  },
  getSettings: {
    ...{ tag: "server", summary: "The settings of the server and their sources, without secrets" },
    reply: closed({
      ...{ host: Type.String(), pid: Type.Integer(), startedAt: Type.Number() },
      settings: Type.Array(closed({ key: Type.String(), value: Type.Unknown(), source: Type.String() })),
    }),
  },
  getStatus: {
    ...{ tag: "server", summary: "The state of the server and its store" },
    description:
      "`storeFault`: why the store takes no writes; an admin token of all namespaces gets the cause with its path. " +
      "`secretFault`: why the signing secrets cannot be read again; the known ones stay in use, and the next start fails. " +
      "`storeTrouble`: failed calls of the store, and how many requests and background rounds failed because of them.",
    // Open: a server may add fields.
    reply: Type.Object({
      now: Type.Number(),
      store: words(["sqlite", "postgres"]),
      storeFault: Type.Optional(orNull(Type.String())),
      secretFault: Type.Optional(orNull(Type.String())),
      storeTrouble: Type.Optional(
        orNull(
          Type.Object({
            ...{ kind: words(["full", "unavailable", "io"]), cause: Type.Optional(Type.String()) },
            ...{ forMs: Type.Number(), requests: Type.Integer(), rounds: Type.Integer() },
          }),
        ),
      ),
    }),
    jobToken: true,
  },
  getVersion: {
    ...{ tag: "server", summary: "The version of the server" },
    reply: closed({ name: words(["perdure"]), version: Type.String(), api: Type.Integer() }),
    jobToken: true,
  },
  getIdentity: {
    ...{ tag: "server", summary: "What the token of this call may do" },
    reply: closed({ id: Type.String(), name: Type.String(), scopes: Type.Array(ScopeName), namespace: orNull(Name) }),
    jobToken: true,
  },
} as const satisfies Readonly<Record<string, Operation>>;
