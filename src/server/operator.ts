/** Who gives an order, for its event: the name of the token and its id, by which it can be revoked. Never the token. */
import { MAX_NAME } from "../core/name.ts";
import { storable } from "../lib/text.ts";
import type { Principal } from "./parts.ts";

export function operator({ name, id, job }: Pick<Principal, "name" | "id" | "job">): string {
  // A job's own token is named as the job is where the engine acts for it.
  return storable(job === undefined ? `token:${name} (${id})` : `job:${id}`, MAX_NAME);
}
