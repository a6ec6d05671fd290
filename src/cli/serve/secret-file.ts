/** The file `secret` in a data directory: the signing secrets of its servers, one per line, newest first, with the times
 *  from which each signs and until which it is accepted. An operator may write it with only a secret. A file that others may
 *  read is refused: its reader can act as any worker and any running command. */
import { randomBytes } from "node:crypto";
import { closeSync, fstatSync } from "node:fs";
import type { Secret } from "../../server/key-ring.ts";
import { type DurableWriteOptions, type FileOwner, writeDurably } from "../../store/open.ts";
import { isSecretText, SECRET_ALLOWED } from "../config/settings-server.ts";
import { CliError, EXIT, usageError } from "../exit.ts";
import { NOTE_BYTES, openPlainSync, readOpen } from "../input/read-file.ts";
import { isCredential } from "../target/token-file.ts";

export const SECRET_FILE = "secret";
/** Secrets per file: after more rotations within the grace time the oldest are dropped early. */
export const MAX_SECRETS = 8;

const OTHERS = 0o077;
const HEAD = `# The secrets with which the servers of one database sign session keys and job tokens, the newest first.
# Keep this file private. All servers of the database need the same file. \`perdure token rotate-secret\` adds a new secret.
`;

export function newSecret(): string {
  return `pds_${randomBytes(32).toString("base64url")}`;
}

export interface SecretFile {
  readonly secrets: Secret[];
  /** The owner of the open file, as a link may lead to a file of another user. */
  readonly owner: FileOwner;
}

/** The secrets in a file; null if it does not exist. */
export function readSecretFile(path: string): Secret[] | null {
  return openSecretFile(path)?.secrets ?? null;
}

/** The same with its owner, for a caller that replaces the file. */
export function openSecretFile(path: string): SecretFile | null {
  let file: number;
  try {
    file = openPlainSync(path, path);
  } catch (error) {
    if (error instanceof CliError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw new CliError(EXIT.failed, `cannot read the signing secret in ${path}: ${message}`);
  }
  try {
    const { mode, uid, gid } = fstatSync(file);
    if ((mode & OTHERS) !== 0 && !isCredential(path)) {
      const shown = (mode & 0o777).toString(8).padStart(4, "0");
      throw usageError(
        `${path} can be read by others (mode ${shown}): run \`chmod 600 ${path}\`, and run ` +
          "`perdure token rotate-secret --after 0s --grace 1m` if somebody may have seen it",
      );
    }
    return { secrets: parseSecrets(readOpen(file, NOTE_BYTES).toString("utf8"), path), owner: { uid, gid } };
  } finally {
    closeSync(file);
  }
}

/** Lines of `SECRET [from TIME] [until TIME] [unnamed]`. No message contains a secret. */
export function parseSecrets(text: string, path: string): Secret[] {
  const secrets = text.split(/\r?\n/).flatMap((line, i): Secret[] => {
    const words = line.trim().split(/\s+/);
    const [secret = "", ...rest] = words;
    if (secret === "" || secret.startsWith("#")) return [];
    const bad = (what: string) => usageError(`${path}:${i + 1}: ${what}`);
    if (!isSecretText(secret)) throw bad(`the secret is not ${SECRET_ALLOWED}`);
    let [signsFrom, until, isUnnamed]: [number | null, number | null, boolean] = [null, null, false];
    while (rest.length > 0) {
      const word = rest.shift();
      if (word === "unnamed") isUnnamed = true;
      else if (word === "from") signsFrom = instantOf(rest.shift(), bad);
      else if (word === "until") until = instantOf(rest.shift(), bad);
      else throw bad("only `from TIME`, `until TIME` and `unnamed` are allowed after a secret");
    }
    return [{ text: secret, signsFrom, until, ...(isUnnamed ? { isUnnamed } : {}) }];
  });
  if (secrets.length === 0) {
    throw usageError(
      `${path} holds no secret: copy the file from another server of the database; without one, remove it and run ` +
        "`perdure token rotate-secret --force`",
    );
  }
  if (secrets.length > MAX_SECRETS)
    throw usageError(`${path} holds more than ${MAX_SECRETS} secrets; delete the last ones`);
  return secrets;
}

function instantOf(word: string | undefined, bad: (what: string) => Error): number {
  const at = /^\d{4}-\d\d-\d\dT/.test(word ?? "") ? Date.parse(word as string) : Number.NaN;
  if (Number.isNaN(at)) throw bad("a time must be written as 2026-01-31T12:00:00Z");
  return at;
}

/** Written atomically, as running servers read it. False if the file exists and must not be replaced. */
export function writeSecretFile(path: string, secrets: readonly Secret[], options: DurableWriteOptions): boolean {
  const lines = secrets.slice(0, MAX_SECRETS).map(({ text, signsFrom, until, isUnnamed }) => {
    const from = signsFrom === null ? "" : ` from ${new Date(signsFrom).toISOString()}`;
    const to = until === null ? "" : ` until ${new Date(until).toISOString()}`;
    return `${text}${from}${to}${isUnnamed ? " unnamed" : ""}\n`;
  });
  try {
    return writeDurably(path, HEAD + lines.join(""), options);
  } catch (error) {
    throw new CliError(EXIT.failed, `cannot write the signing secret to ${path}: ${(error as Error).message}`);
  }
}

/** Puts a new secret first; the others are accepted until it has signed for `graceMs`. The secret in use is kept whatever
 *  its time; other expired secrets are removed. */
export function rotated(
  secrets: readonly Secret[],
  { now, signsFrom, graceMs }: { readonly now: number; readonly signsFrom: number; readonly graceMs: number },
): Secret[] {
  const until = signsFrom + graceMs;
  const kept = secrets
    .filter((secret, i) => i === 0 || secret.until === null || secret.until > now)
    .map((secret) => ({ ...secret, until: Math.min(secret.until ?? until, until) }));
  return [{ text: newSecret(), signsFrom, until: null }, ...kept].slice(0, MAX_SECRETS);
}
