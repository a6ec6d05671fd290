/** Access tokens of a server and their scopes. A token is shown once, when it is created; only its hash is stored. */

/** read: read jobs and events. submit: submit jobs and command them. work: run jobs. admin: all of these, and tokens.
 *  @example
 *  const isScope = (text: string) => SCOPES.some((scope) => scope === text); */
export const SCOPES = ["read", "submit", "work", "admin"] as const;
/** What a token permits.
 *  @example
 *  const scopes: Scope[] = ["read", "submit"]; */
export type Scope = (typeof SCOPES)[number];

export interface AccessToken {
  readonly id: string;
  /** For people. */
  readonly name: string;
  /** SHA-256 of the token, in hex. */
  readonly hash: string;
  readonly scopes: readonly Scope[];
  /** Null: all of them. */
  readonly namespace: string | null;
  readonly createdAt: number;
  /** Null: never. */
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
}
