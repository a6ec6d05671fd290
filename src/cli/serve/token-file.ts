/** The file that holds a token: for its owner alone, and whole or not there at all. Whoever can read it can do what the
 *  token allows, so a file that others may read is refused. */
import { randomBytes } from "node:crypto";
import { chmodSync, closeSync, fstatSync, linkSync, openSync, readFileSync, unlinkSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { CliError, EXIT } from "../exit.ts";

const OTHERS = 0o077;
const TOKEN = /^pdr_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{43}$/;

/** The token in a file; null if there is no such file. */
export function readTokenFile(path: string): string | null {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw new CliError(EXIT.failed, `cannot read the token in ${path}: ${message}`);
  }
  try {
    const { mode } = fstatSync(file);
    if ((mode & OTHERS) !== 0) {
      const shown = (mode & 0o777).toString(8).padStart(4, "0");
      throw new CliError(
        EXIT.usage,
        `${path} can be read by others (mode ${shown}): take the rights away with \`chmod 600 ${path}\`, and make a new token if somebody may have seen it`,
      );
    }
    const text = readFileSync(file, "utf8").trim();
    if (TOKEN.test(text)) return text;
    throw new CliError(EXIT.usage, `${path} holds no token; remove it, and the next start makes a new one`);
  } finally {
    closeSync(file);
  }
}

/** Writes a token where no file is yet. Answers what is there afterwards: if somebody was faster, theirs. */
export function writeTokenFile(path: string, token: string): string {
  const part = join(dirname(path), `.token-${randomBytes(6).toString("hex")}`);
  const file = openSync(part, "wx", 0o600);
  try {
    chmodSync(part, 0o600); // whatever the umask says
    writeSync(file, `${token}\n`);
  } finally {
    closeSync(file);
  }
  try {
    linkSync(part, path);
    return token;
  } catch (error) {
    const there = (error as NodeJS.ErrnoException).code === "EEXIST" ? readTokenFile(path) : null;
    if (there === null) throw error;
    return there;
  } finally {
    unlinkSync(part);
  }
}
