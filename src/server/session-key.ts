/** Keys of sessions: proof that a caller is the session it names. A key follows from the store's secret, so any server over
 *  the same store accepts it, and none has to remember it. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { HEADER } from "../contract/wire.ts";
import { PerdureError } from "../core/errors.ts";
import type { Call, ServerParts } from "./parts.ts";

export function sessionKey(secret: string, session: string, namespace: string): string {
  return createHmac("sha256", secret).update(`session:${session}:${namespace}`).digest("base64url");
}

/** Whether a call shows the key of this session. */
export function isSessionKey({ engine }: ServerParts, call: Call, session: string): boolean {
  const given = call.request.headers[HEADER.sessionKey];
  if (typeof given !== "string") return false;
  const expected = Buffer.from(sessionKey(engine.store.secret, session, call.namespace));
  const shown = Buffer.from(given);
  return shown.length === expected.length && timingSafeEqual(shown, expected);
}

/** The session of a call that has its key. */
export function sessionOf(parts: ServerParts, call: Call): string {
  const session = call.params.session as string;
  if (isSessionKey(parts, call, session)) return session;
  const message = `this call needs the key of its session in the header ${HEADER.sessionKey}`;
  throw new PerdureError("forbidden", message);
}

/** What a lease token says: which session holds which attempt. Null if it is none. Whether it is true, the store knows. */
export function readLease(token: string): { readonly session: string; readonly attempt: number } | null {
  const [format, generation, session, attempt, more] = token.split(".");
  if (format !== "1" || !generation || !session || !attempt || more !== undefined) return null;
  return /^[1-9]\d{0,9}$/.test(attempt) ? { session, attempt: Number(attempt) } : null;
}
