/** Access tokens in the port. Changes write an event with who made them (`by`), as far as that is known. */
import type { AccessToken } from "../../core/access.ts";

export interface TokenStore {
  /** Refused with `store_refused` if its id or hash is taken. */
  add(token: AccessToken, by?: string | null): Promise<void>;
  /** All of them, revoked ones too, oldest first. */
  list(): Promise<AccessToken[]>;
  /** False if it does not exist or was revoked before: then the first instant stays. */
  revoke(id: string, now: number, by?: string | null): Promise<boolean>;
}
