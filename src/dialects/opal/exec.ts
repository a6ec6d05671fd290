/** Turns a job of OPAL's clients, a prompt with metadata and an optional file, into a command: the configured engine, which gets
 *  them in its environment and in files.
 *
 *    OPAL_JOB_ID       the client's id of the job
 *    OPAL_PROMPT       the prompt, if it has at most 32 KiB and no NUL
 *    OPAL_PROMPT_FILE  a file with the prompt, always
 *    OPAL_METADATA     JSON
 *    OPAL_INPUT_FILE   the client's file, if any
 *    OPAL_RETRY        JSON: this job's own retry, if any
 *
 *  Paths are relative to the attempt's directory, in which the engine starts. */
import { ConfigError } from "../../core/errors.ts";
import { asBase64 } from "../../core/input/exec-files.ts";
import type { ExecInput } from "../../core/input/exec-input.ts";
import type { OpalRetry } from "./retry.ts";

export interface OpalSubmission {
  /** The command configured as `opal.engine`. */
  readonly engine: readonly string[];
  readonly prompt: unknown;
  /** Any JSON value; default `{}`. */
  readonly metadata?: unknown;
  readonly inputFile?: { readonly name: string; readonly base64: string };
  /** Part of the job: the same id with another retry is another job, and refused. */
  readonly retry?: OpalRetry | null;
  /** Null if the client chose none: the worker then fills in Perdure's job id. */
  readonly opalId: string | null;
}

const MAX_ENV_PROMPT_BYTES = 32_768;
const MAX_METADATA_BYTES = 65_536; // Linux takes 128 KiB for one variable, its name included
const PROMPT_FILE = "prompt.txt";

export function opalExec({ engine, prompt, metadata, inputFile, retry = null, opalId }: OpalSubmission): ExecInput {
  if (typeof prompt !== "string" || prompt.trim() === "") {
    throw new ConfigError({ path: "prompt", given: prompt, allowed: "a text, not empty" });
  }
  const bytes = Buffer.from(prompt, "utf8");
  const env: Record<string, string> = opalId === null ? {} : { OPAL_JOB_ID: opalId };
  env.OPAL_PROMPT_FILE = `inputs/${PROMPT_FILE}`;
  // No prototype: a file may be called __proto__.
  const files: Record<string, string> = Object.create(null);
  files[PROMPT_FILE] = bytes.toString("base64");
  if (bytes.length <= MAX_ENV_PROMPT_BYTES && !prompt.includes("\0")) env.OPAL_PROMPT = prompt;
  env.OPAL_METADATA = metadataText(metadata ?? {});
  if (retry !== null) env.OPAL_RETRY = JSON.stringify(retry);
  if (inputFile !== undefined) {
    const name = inputName(inputFile.name);
    files[name] = asBase64(inputFile.base64, "input_file");
    env.OPAL_INPUT_FILE = `inputs/${name}`;
  }
  return { argv: engine, env, files, ...(opalId === null ? { fill: { OPAL_JOB_ID: "jobId" } } : {}) };
}

function metadataText(metadata: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(metadata);
  } catch {
    text = undefined; // circular, a BigInt, or too deep
  }
  if (text !== undefined && Buffer.byteLength(text) <= MAX_METADATA_BYTES) return text;
  const allowed = `a JSON value of at most ${MAX_METADATA_BYTES} bytes`;
  throw new ConfigError({ path: "metadata", given: metadata, allowed });
}

const MAX_NAME = 60; // characters: at most 240 bytes
const MAX_EXTENSION = 16;

/** The last part of the path that a client sent, limited to letters, digits, `.`, `_` and `-`, with its extension. It
 *  does not begin with "." or "-", so that no program takes it for a hidden file or an option. */
function inputName(given: string): string {
  const base = given.split(/[/\\]/).at(-1) as string;
  const plain = base
    .toWellFormed()
    .normalize("NFC")
    .replaceAll(/[^\p{L}\p{M}\p{N}._-]/gu, "_");
  const name = shortened(plain.replace(/^[.-]+/, ""));
  if (name === "") return "input";
  // Some file systems ignore case: the file must not replace the prompt there either.
  return name.toLowerCase() === PROMPT_FILE ? `input_${name}` : name;
}

function shortened(name: string): string {
  const characters = Array.from(name); // does not split surrogate pairs
  if (characters.length <= MAX_NAME) return name;
  const dot = characters.lastIndexOf(".");
  const extension = dot > 0 && characters.length - dot <= MAX_EXTENSION ? characters.slice(dot) : [];
  return [...characters.slice(0, MAX_NAME - extension.length), ...extension].join("");
}
