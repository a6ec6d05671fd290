/** The operations on tokens of a server. */
import { Type } from "typebox";
import type { Operation } from "./operations.ts";
import { closed, Name, orNull, ScopeName, Span } from "./schemas.ts";
import { LIMIT } from "./wire.ts";

const TokenInfo = closed({
  id: Type.String(),
  name: Type.String(),
  scopes: Type.Array(ScopeName),
  namespace: orNull(Name),
  createdAt: Type.Number(),
  expiresAt: orNull(Type.Number()),
  revokedAt: orNull(Type.Number()),
});

export const TOKEN_OPERATIONS = {
  createToken: {
    ...{ tag: "server", summary: "Make a token; it is shown this once", status: 201 },
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
} as const satisfies Readonly<Record<string, Operation>>;
