/** The operations on tokens of a server. */
import { Type } from "typebox";
import type { Operation } from "./operations.ts";
import { closed, Name, orNull, ScopeName, Span } from "./schemas.ts";

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
    summary: "Tokens, without their secrets",
    reply: closed({ tokens: Type.Array(TokenInfo) }),
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
