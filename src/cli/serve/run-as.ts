/** The user that commands run as. Submitted commands have the rights of that user, and the user of a server can read its
 *  database and admin token. A server or worker of root therefore runs commands as another user by default: `perdure` if it
 *  exists, else `nobody`. If that is not possible, a note describes what to do. */
import { dirname, resolve } from "node:path";
import { ConfigError } from "../../core/errors.ts";
import { defaultDir } from "../../worker/connect-worker.ts";
import { closedTo, findUser, lookUp, type RunUser } from "../../worker/exec/run-user.ts";
import type { Config } from "../config/config.ts";
import { usageError } from "../exit.ts";

/** The value that means the worker's own user. */
export const SELF = "self";
const CANDIDATES = ["perdure", "nobody"];

export interface RunAs {
  /** Null: the worker's own user. */
  readonly user: RunUser | null;
  /** One line for people. */
  readonly note: string;
}

export function runAsOf(config: Config, cwd: string): RunAs {
  const given = config.text("worker.runAs");
  if (given === SELF) return { user: null, note: OWN };
  if (given !== undefined) {
    try {
      return runningAs(findUser(given));
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      throw usageError(error.message.replace(/^runAs:/, `${config.sourceOf("worker.runAs")}:`));
    }
  }
  if (process.geteuid?.() !== 0) return { user: null, note: `${OWN}; ${APART}` };
  const [user = null] = CANDIDATES.flatMap((name) => lookUp(name) ?? []);
  if (user === null) return { user, note: `run as root, who can read the token: name a user with --run-as` };
  const dir = config.text("worker.dir");
  const closed = closedTo(user, cwd) ?? closedTo(user, dirname(dir === undefined ? defaultDir() : resolve(cwd, dir)));
  if (closed === null) return runningAs(user);
  const advice = `name a user with --run-as, or start it in a directory that ${user.name} can enter`;
  return { user: null, note: `run as root, who can read the token: ${user.name} cannot enter ${closed}; ${advice}` };
}

const OWN = "run as the user of this process, who can read its token";
const APART = "where others submit, give server and workers different users (docs/guides/deploy.md)";

function runningAs(user: RunUser): RunAs {
  if (user.uid === 0) return { user, note: "run as root, who can read the token: name another user with --run-as" };
  return { user, note: `run as ${user.name} (uid ${user.uid}), who cannot read the token` };
}

/** The value of --run-as for the workers of `perdure up`. */
export function runAsArgument({ user }: RunAs): string {
  return user === null ? SELF : `${user.uid}:${user.gid}`;
}
