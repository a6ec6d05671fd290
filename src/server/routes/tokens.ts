/** Tokens: create, list (without secrets), revoke. A caller that is bound to a namespace only sees and creates tokens of that
 *  namespace. */
import { LIMIT } from "../../contract/wire.ts";
import type { AccessToken, Scope } from "../../core/access.ts";
import { asText } from "../../core/check.ts";
import { asSpan } from "../../core/duration.ts";
import { PerdureError } from "../../core/errors.ts";
import { operator, type Principal, type RouteHandlers, type ServerParts } from "../context.ts";

interface TokenRequest {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly namespace?: string | null;
  readonly expiresIn?: string | number;
}

export function tokenRoutes({ tokens }: ServerParts): RouteHandlers {
  return {
    async createToken({ who, body }) {
      const { name, scopes, expiresIn, ...rest } = body as TokenRequest;
      const namespace = rest.namespace === undefined ? who.namespace : rest.namespace;
      if (who.namespace !== null && namespace !== who.namespace) {
        throw new PerdureError("forbidden", "this token can only create tokens of its own namespace", {
          path: "namespace",
        });
      }
      const expiresInMs = expiresIn === undefined ? null : asSpan(expiresIn, "expiresIn");
      if (namespace !== null) asText(namespace, "namespace", 200);
      const wanted = { name: asText(name, "name", 200), scopes, namespace, expiresInMs, by: operator(who) };
      const { token, info } = await tokens.create(wanted);
      return { token, info: shown(info) };
    },
    async listTokens({ who, query }) {
      const { after, limit = LIMIT.tokens } = query as { readonly after?: string; readonly limit?: number };
      const all = (await tokens.list()).filter((token) => isOf(who, token));
      const place = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
      if (after !== undefined && place === 0) throw new PerdureError("not_found", "after: no token has this id");
      const page = all.slice(place, place + limit).map(shown);
      return { tokens: page, next: place + limit < all.length ? (page.at(-1)?.id ?? null) : null };
    },
    async revokeToken({ who, params }) {
      const token = (await tokens.list()).find(({ id }) => id === params.id);
      if (token === undefined || !isOf(who, token)) throw new PerdureError("not_found", "no token has this id");
      await tokens.revoke(token.id, operator(who));
    },
  };
}

function isOf(who: Principal, token: AccessToken): boolean {
  return who.namespace === null || token.namespace === who.namespace;
}

function shown({ hash: _, ...rest }: AccessToken): Omit<AccessToken, "hash"> {
  return rest;
}
