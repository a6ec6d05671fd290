/** Tokens of jobs: what the processes of a running attempt may show, to submit children, read them and tell usage. Nothing is
 *  stored: a token follows from the store's secret, and is good only while that very attempt runs. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { isId } from "../lib/id.ts";

const PREFIX = "pdj_";
const FORMAT = /^pdj_([0-9a-z]{26})_([1-9]\d{0,9})_([A-Za-z0-9_-]{43})$/;

export interface JobToken {
  readonly id: string;
  readonly attempt: number;
}

export function jobToken(secret: string, id: string, attempt: number): string {
  return `${PREFIX}${id.slice("job_".length)}_${attempt}_${proof(secret, id, attempt)}`;
}

export function isJobToken(text: string): boolean {
  return text.startsWith(PREFIX);
}

/** Whose token it is; null if it was not made with this secret. Whether the attempt still runs, the store knows. */
export function readJobToken(secret: string, text: string): JobToken | null {
  const [, digits = "", number = "", shown = ""] = FORMAT.exec(text) ?? [];
  const id = `job_${digits}`;
  if (!isId(id, "job")) return null;
  const attempt = Number(number);
  const expected = Buffer.from(proof(secret, id, attempt));
  const given = Buffer.from(shown);
  return given.length === expected.length && timingSafeEqual(given, expected) ? { id, attempt } : null;
}

function proof(secret: string, id: string, attempt: number): string {
  return createHmac("sha256", secret).update(`job:${id}:${attempt}`).digest("base64url");
}
