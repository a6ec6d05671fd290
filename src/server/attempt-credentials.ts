/** Session keys and job tokens: proof that a caller is the session it names, or a process of a running attempt. Both
 *  follow from the servers' secret, so nothing is stored. */

import { HEADER } from "../contract/wire.ts";
import { PerdureError } from "../core/errors.ts";
import { isId } from "../lib/id.ts";
import type { RouteCall, ServerParts } from "./context.ts";
import type { KeyRing } from "./key-ring.ts";

// Tokens of jobs: what the processes of a running attempt may show, to submit children, read them and tell usage.
// Nothing is stored: a token follows from the servers' secret, and is good only while that very attempt runs.

const PREFIX = "pdj_";
const FORMAT = /^pdj_([0-9a-z]{26})_([1-9]\d{0,9})_([A-Za-z0-9_-]{43,52})$/;

export interface JobToken {
  readonly id: string;
  readonly attempt: number;
}

export function jobToken(keys: KeyRing, id: string, attempt: number): string {
  return `${PREFIX}${id.slice("job_".length)}_${attempt}_${keys.sign(signed(id, attempt))}`;
}

export function isJobToken(text: string): boolean {
  return text.startsWith(PREFIX);
}

/** Whose token it is; null if it was not made with one of these keys. Whether the attempt still runs, the store knows. */
export function readJobToken(keys: KeyRing, text: string): JobToken | null {
  const [, digits = "", number = "", shown = ""] = FORMAT.exec(text) ?? [];
  const id = `job_${digits}`;
  if (!isId(id, "job")) return null;
  const attempt = Number(number);
  return keys.check(signed(id, attempt), shown) === null ? null : { id, attempt };
}

function signed(id: string, attempt: number): string {
  return `job:${id}:${attempt}`;
}

// Keys of sessions: proof that a caller is the session it names. A key follows from the servers' secret, so any
// server with the same secret accepts it, and none has to remember it.

export function sessionKey(keys: KeyRing, session: string, namespace: string): string {
  return keys.sign(`session:${session}:${namespace}`);
}

/** Whether a call shows the key of this session. */
export function isSessionKey(parts: Pick<ServerParts, "keys">, call: RouteCall, session: string): boolean {
  return checkKey(parts, call, session) !== null;
}

function checkKey({ keys }: Pick<ServerParts, "keys">, call: RouteCall, session: string): "current" | "former" | null {
  const given = call.request.headers[HEADER.sessionKey];
  return typeof given === "string" ? keys.check(`session:${session}:${call.namespace}`, given) : null;
}

/** The session of a call that has its key. */
export function sessionOf(parts: Pick<ServerParts, "keys">, call: RouteCall): string {
  return provenSession(parts, call).session;
}

/** The same, and whether its key was made with a secret that has been replaced since. */
export function provenSession(
  parts: Pick<ServerParts, "keys">,
  call: RouteCall,
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
