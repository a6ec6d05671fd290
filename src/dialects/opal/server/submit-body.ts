/** Parses a submit of OPAL's clients, a form with a file or JSON, into the same fields, unchecked except for their
 *  names. The platform parses forms, from a body that is read in full; its size is limited to that of a job. */
import { checkKeys, isPlain } from "../../../core/check.ts";
import { ConfigError, PerdureError } from "../../../core/errors.ts";
import { LIMITS } from "../../../engine/limits.ts";
import type { RouteCall } from "../../../server/context.ts";

export const FORM_TYPE = "multipart/form-data";

export interface OpalForm {
  readonly prompt: unknown;
  readonly metadata: unknown;
  readonly jobId: unknown;
  readonly retry: unknown;
  readonly inputFile: { readonly name: string; readonly base64: string } | null;
}

const FIELDS = ["prompt", "input_file", "metadata", "job_id", "retry"] as const;
/** A file is a third larger in its job (base64), so a form of this size would exceed a job's limit anyway. */
const MAX_FORM_BYTES = LIMITS.payloadBytes;

export async function readForm(call: RouteCall): Promise<OpalForm> {
  const type = call.request.headers["content-type"] ?? "";
  return isForm(type) ? fromForm(await parsed(await bytesOf(call.body), type)) : fromJson(call.body);
}

function isForm(type: string): boolean {
  return type.split(";", 1)[0]?.trim().toLowerCase() === FORM_TYPE;
}

/** The error for a job that is too large, with what to do about it. */
export function tooLarge(): PerdureError {
  const limit = `prompt, metadata and input_file may have ${LIMITS.payloadBytes} bytes together, the file counted in base64`;
  return new PerdureError(
    "body_too_large",
    `${limit}; store a larger file where the engine can read it, and send its address`,
  );
}

async function bytesOf(body: unknown): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of (body ?? []) as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_FORM_BYTES) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function parsed(bytes: Buffer, type: string): Promise<FormData> {
  try {
    return await new Response(bytes, { headers: { "content-type": type } }).formData();
  } catch {
    throw new PerdureError("invalid_request", "the body does not match its Content-Type");
  }
}

async function fromForm(form: FormData): Promise<OpalForm> {
  const fields: Record<string, unknown> = Object.create(null);
  for (const [name, value] of form) {
    if (name in fields)
      throw new ConfigError({ path: name, given: "more than one", problem: "is given more than once" });
    fields[name] = value;
  }
  checkKeys(fields, FIELDS, "");
  const { prompt, input_file: file, job_id } = fields;
  return {
    prompt: textIn(prompt, "prompt"),
    metadata: jsonIn(fields.metadata, "metadata", '{"source": "ui"}'),
    // Forms send empty fields as an empty text.
    jobId: job_id === "" ? undefined : textIn(job_id, "job_id"),
    retry: jsonIn(fields.retry, "retry", '{"max_retries": 3, "backoff": [3, 8, 15]}'),
    inputFile: file === undefined ? null : await fileIn(file),
  };
}

function textIn(value: unknown, path: string): string | undefined {
  if (value === undefined || typeof value === "string") return value;
  throw new ConfigError({ path, given: "a file", allowed: "a text" });
}

function jsonIn(value: unknown, path: string, example: string): unknown {
  const text = textIn(value, path);
  if (text === undefined || text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new ConfigError({ path, given: text, allowed: `JSON, such as ${example}` });
  }
}

async function fileIn(value: unknown): Promise<OpalForm["inputFile"]> {
  if (value === "") return null;
  if (typeof value === "string") {
    // curl sends this if the @ before the file's name is missing.
    throw new ConfigError({ path: "input_file", given: value, allowed: "a file: a part of the form with a filename" });
  }
  const file = value as File;
  // Browsers send a file that was not chosen without a name and content.
  if (file.name === "" && file.size === 0) return null;
  return { name: file.name, base64: Buffer.from(await file.arrayBuffer()).toString("base64") };
}

function fromJson(body: unknown): OpalForm {
  if (!isPlain(body)) {
    throw new ConfigError({ path: "body", given: body, allowed: `a form, or a JSON object with ${FIELDS.join(", ")}` });
  }
  checkKeys(body, FIELDS, "");
  const fields = body as Partial<Record<(typeof FIELDS)[number], unknown>>;
  const { prompt, metadata, job_id, retry, input_file: file } = fields;
  return {
    prompt,
    metadata,
    jobId: job_id,
    retry,
    inputFile: file === undefined || file === null ? null : jsonFile(file),
  };
}

function jsonFile(value: unknown): OpalForm["inputFile"] {
  const { name, base64 } = (isPlain(value) ? value : {}) as { name?: unknown; base64?: unknown };
  if (isPlain(value)) checkKeys(value, ["name", "base64"], "input_file");
  if (typeof name === "string" && typeof base64 === "string") return { name, base64 };
  const allowed = 'an object such as {"name": "photo.png", "base64": "iVBORw0..."}';
  throw new ConfigError({ path: "input_file", given: value, allowed });
}
