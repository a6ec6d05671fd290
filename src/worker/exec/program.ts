/** What can be said of a command before it is started: is there such a program, and such a directory? And what an error
 *  at its start means. */
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { type Failure, failure } from "../../core/decision/failure.ts";
import { closedTo, type RunUser } from "./run-user.ts";

/** Null: it may be started. */
export async function whyNot(program: string, cwd: string, path: string): Promise<Failure | null> {
  const directory = await stat(cwd).catch((error: NodeJS.ErrnoException) => error);
  const where = `the working directory ${cwd}`;
  if (directory instanceof Error) return { ...startFailure(directory.code ?? "ENOENT", where), name: NO_DIRECTORY };
  if (!directory.isDirectory()) return { ...startFailure("ENOTDIR", where), name: NO_DIRECTORY };
  const places = program.includes("/")
    ? [isAbsolute(program) ? program : resolve(cwd, program)]
    : path.split(delimiter).map((directory) => join(resolve(cwd, directory), program));
  let code = "ENOENT";
  for (const place of places) {
    const found = await executable(place);
    if (found === null) return null;
    if (found === "EACCES") code = found;
  }
  return startFailure(code, program);
}

/** The directory that a job names, for another user than the worker's own. */
export function whyNotAs(user: RunUser | null, cwd: string | null | undefined): Failure | null {
  const closed = user === null || !cwd ? null : closedTo(user, cwd);
  if (user === null || closed === null) return null;
  const what = `user ${user.name}, as which commands run here, may not enter ${closed}`;
  const message = `cannot start: ${what}; open it with \`chmod o+x\`, or choose a user with --run-as (EACCES)`;
  return failure({ kind: "error", class: "invalid", name: NO_DIRECTORY, code: "EACCES", message });
}

async function executable(place: string): Promise<string | null> {
  try {
    if (!(await stat(place)).isFile()) return "EACCES";
    await access(place, constants.X_OK);
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "ENOENT";
  }
}

/** The machine was short of something: the same command may start later. All else is wrong with the command. */
const PASSING = new Set(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE", "ENOSPC", "ETXTBSY", "EINTR", "EIO"]);

const WORDS: Readonly<Record<string, string>> = {
  ENOENT: "is not there",
  EACCES: "may not be run, or is not a program",
  ENOTDIR: "is not a directory",
  E2BIG: "has too long arguments or environment",
  ENOEXEC: "is not a program that this machine can run",
};

const NO_DIRECTORY = "WorkingDirectoryError";

export function startFailure(code: string, what: string): Failure {
  const message = `cannot start: ${what} ${WORDS[code] ?? "cannot be run"} (${code})`;
  return failure({
    kind: "error",
    class: PASSING.has(code) ? "transient" : "invalid",
    name: "SpawnError",
    code,
    message,
  });
}
