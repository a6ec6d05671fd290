/** Who runs this program, for the events of what is done through it: the user of this machine. */
import { userInfo } from "node:os";
import { MAX_NAME } from "../core/name.ts";
import { storable } from "../lib/text.ts";

export function thisUser(): string {
  return storable(`user:${nameOrId()}`, MAX_NAME);
}

function nameOrId(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? "unknown"); // a user without an entry, as in a container
  }
}
