/** What the engine's events of tokens say: who made or revoked which one, never the token or its hash. One for all namespaces
 *  names none, and is seen by those who may see all. */
import type { AccessToken } from "../core/access.ts";

export const TOKEN_CREATED = "token.created";
export const TOKEN_REVOKED = "token.revoked";

export function createdToken({ id, name, scopes, namespace, expiresAt }: AccessToken, by: string | null) {
  return { v: 1, token: id, name, scopes, expiresAt, by, ...(namespace === null ? {} : { namespace }) };
}

export function revokedToken(
  { id, name, namespace }: Pick<AccessToken, "id" | "name" | "namespace">,
  by: string | null,
) {
  return { v: 1, token: id, name, by, ...(namespace === null ? {} : { namespace }) };
}
