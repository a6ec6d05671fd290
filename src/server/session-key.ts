/** Keys of sessions: proof that a caller is the session it names. A key follows from the servers' secret, so any server with
 *  the same secret accepts it, and none has to remember it. */
import { HEADER } from "../contract/wire.ts";
import { PerdureError } from "../core/errors.ts";
import type { KeyRing } from "./key-ring.ts";
import type { Call, ServerParts } from "./parts.ts";

export function sessionKey(keys: KeyRing, session: string, namespace: string): string {
  return keys.sign(`session:${session}:${namespace}`);
}

/** Whether a call shows the key of this session. */
export function isSessionKey(parts: Pick<ServerParts, "keys">, call: Call, session: string): boolean {
  return checkKey(parts, call, session) !== null;
}

function checkKey({ keys }: Pick<ServerParts, "keys">, call: Call, session: string): "current" | "former" | null {
  const given = call.request.headers[HEADER.sessionKey];
  return typeof given === "string" ? keys.check(`session:${session}:${call.namespace}`, given) : null;
}

/** The session of a call that has its key. */
export function sessionOf(parts: Pick<ServerParts, "keys">, call: Call): string {
  return provenSession(parts, call).session;
}

/** The same, and whether its key was made with a secret that has been replaced since. */
export function provenSession(
  parts: Pick<ServerParts, "keys">,
  call: Call,
): { readonly session: string; readonly isFormer: boolean } {
  const session = call.params.session as string;
  const found = checkKey(parts, call, session);
  if (found !== null) return { session, isFormer: found === "former" };
  const message = `this call needs the key of its session in the header ${HEADER.sessionKey}`;
  throw new PerdureError("forbidden", message);
}

/** What a lease token says: which session holds which attempt. Null if it is none. Whether it is true, the store knows. */
export function readLease(token: string): { readonly session: string; readonly attempt: number } | null {
  const [format, generation, session, attempt, more] = token.split(".");
  if (format !== "1" || !generation || !session || !attempt || more !== undefined) return null;
  return /^[1-9]\d{0,9}$/.test(attempt) ? { session, attempt: Number(attempt) } : null;
}
