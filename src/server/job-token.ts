/** Tokens of jobs: what the processes of a running attempt may show, to submit children, read them and tell usage. Nothing is
 *  stored: a token follows from the servers' secret, and is good only while that very attempt runs. */
import { isId } from "../lib/id.ts";
import type { KeyRing } from "./key-ring.ts";

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
