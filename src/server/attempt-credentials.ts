/** Session keys and job tokens: proof that a caller is the session it names, or a process of a running attempt. Both are derived
 *  from the servers' secret: any server with that secret accepts them, and nothing is stored. */

import { HEADER } from "../contract/wire.ts";
import { PerdureError } from "../core/errors.ts";
import { isId } from "../lib/id.ts";
import type { RouteCall, ServerParts } from "./context.ts";
import type { KeyRing } from "./key-ring.ts";

// Job tokens: with these the processes of a running attempt submit and read children, and report usage. A job token is valid only
// while that attempt is running.

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

/** The attempt of a job token; null if it was not signed with one of these keys. Does not check that the attempt is running. */
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

export function sessionKey(keys: KeyRing, session: string, namespace: string): string {
  return keys.sign(`session:${session}:${namespace}`);
}

/** Whether a call has the key of this session. */
export function isSessionKey(parts: Pick<ServerParts, "keys">, call: RouteCall, session: string): boolean {
  return checkKey(parts, call, session) !== null;
}

function checkKey({ keys }: Pick<ServerParts, "keys">, call: RouteCall, session: string): "current" | "former" | null {
  const given = call.request.headers[HEADER.sessionKey];
  return typeof given === "string" ? keys.check(`session:${session}:${call.namespace}`, given) : null;
}

/** The session of a call, or throws if the call does not have its key. */
export function sessionOf(parts: Pick<ServerParts, "keys">, call: RouteCall): string {
  return provenSession(parts, call).session;
}

/** Also returns whether the key was signed with a secret that has been replaced since. */
export function provenSession(
  parts: Pick<ServerParts, "keys">,
  call: RouteCall,
): { readonly session: string; readonly isFormer: boolean } {
  const session = call.params.session as string;
  const found = checkKey(parts, call, session);
  if (found !== null) return { session, isFormer: found === "former" };
  const message = `the session key is missing or not valid; send it in the header ${HEADER.sessionKey}`;
  throw new PerdureError("forbidden", message);
}

/** The session and the attempt in a lease token; null if it is malformed. It is not signed: check it against the store. */
export function readLease(token: string): { readonly session: string; readonly attempt: number } | null {
  const [format, generation, session, attempt, more] = token.split(".");
  if (format !== "1" || !generation || !session || !attempt || more !== undefined) return null;
  return /^[1-9]\d{0,9}$/.test(attempt) ? { session, attempt: Number(attempt) } : null;
}
