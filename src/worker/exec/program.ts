/** Checks a command before it is started: whether its program and its working directory exist and can be used. And the failure
 *  that an error at its start becomes. */
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { type Failure, failure } from "../../core/decision/failure.ts";
import { closedTo, type RunUser } from "./run-user.ts";

/** Null if the program can be started. */
export async function checkProgram(program: string, cwd: string, path: string): Promise<Failure | null> {
  const directory = await stat(cwd).catch((error: NodeJS.ErrnoException) => error);
  const where = `the working directory ${cwd}`;
  if (directory instanceof Error) return { ...startFailure(directory.code ?? "ENOENT", where), name: NO_DIRECTORY };
  if (!directory.isDirectory()) return { ...startFailure("ENOTDIR", where), name: NO_DIRECTORY };
  const candidates = program.includes("/")
    ? [isAbsolute(program) ? program : resolve(cwd, program)]
    : path.split(delimiter).map((directory) => join(resolve(cwd, directory), program));
  let code = "ENOENT";
  for (const candidate of candidates) {
    const found = await executableError(candidate);
    if (found === null) return null;
    if (found === "EACCES") code = found;
  }
  return startFailure(code, program);
}

/** Null if `user` can enter the working directory of the job. */
export function checkUserAccess(user: RunUser | null, cwd: string | null | undefined): Failure | null {
  const closed = user === null || !cwd ? null : closedTo(user, cwd);
  if (user === null || closed === null) return null;
  const what = `commands run as user ${user.name}, who cannot enter ${closed}`;
  const message = `cannot start: ${what}; allow it with \`chmod o+x\`, or choose another user with --run-as (EACCES)`;
  return failure({ kind: "error", class: "invalid", name: NO_DIRECTORY, code: "EACCES", message });
}

/** The code of an error; null if it can be executed. */
async function executableError(path: string): Promise<string | null> {
  try {
    if (!(await stat(path)).isFile()) return "EACCES";
    await access(path, constants.X_OK);
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "ENOENT";
  }
}

/** A resource of the machine was exhausted: the same command may start later. Other errors are mistakes in the command. */
const TRANSIENT = new Set(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE", "ENOSPC", "ETXTBSY", "EINTR", "EIO"]);

const MESSAGES: Readonly<Record<string, string>> = {
  ENOENT: "does not exist",
  EACCES: "is not executable",
  ENOTDIR: "is not a directory",
  E2BIG: "has arguments or an environment that are too long",
  ENOEXEC: "is not in a format that this machine can execute",
};

const NO_DIRECTORY = "WorkingDirectoryError";

export function startFailure(code: string, what: string): Failure {
  const message = `cannot start: ${what} ${MESSAGES[code] ?? "cannot be executed"} (${code})`;
  return failure({
    kind: "error",
    class: TRANSIENT.has(code) ? "transient" : "invalid",
    name: "SpawnError",
    code,
    message,
  });
}
