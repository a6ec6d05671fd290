/** The data directory: that it is there, can be written to, and is nobody else's business. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { type DataDir, holdsData } from "../data.ts";
import { madeDir } from "../run/data-dir.ts";
import { TOKEN_FILE, WORKER_TOKEN_FILE } from "../serve/first-token.ts";
import { SECRET_FILE } from "../serve/secret-file.ts";
import { type Found, ok, problem, warning, wordsOf } from "./finding.ts";

const OTHERS = 0o077;

/** `isServed`: a server is at work on it, whose database may be elsewhere. */
export async function checkData(dir: DataDir, isServed: boolean): Promise<Found[]> {
  const stat = statSync(dir.path, { throwIfNoEntry: false });
  if (stat === undefined || !stat.isDirectory() || (!isServed && !holdsData(dir))) {
    return [
      problem(`there is no Perdure data in ${dir.given}`, "start with `perdure up`, or name another with --data"),
    ];
  }
  return [writable(dir), ...modes(dir)];
}

function writable(dir: DataDir): Found {
  try {
    madeDir(dir);
    return ok(`${dir.given} is there and can be written to`);
  } catch (error) {
    return problem(wordsOf(error), "give it to the user who runs Perdure");
  }
}

/** Jobs may hold secrets, and who has a token may do what it allows. */
function modes({ path, given }: DataDir): Found[] {
  const tokens = [TOKEN_FILE, WORKER_TOKEN_FILE];
  const wanted = [".", "perdure.db", "perdure.db-wal", ...tokens, SECRET_FILE].flatMap((name) => {
    const stat = statSync(join(path, name), { throwIfNoEntry: false });
    if (stat === undefined || (stat.mode & OTHERS) === 0) return [];
    const shown = join(given, name);
    const mode = (stat.mode & 0o777).toString(8).padStart(4, "0");
    const advice = `chmod ${stat.isDirectory() ? "700" : "600"} ${shown}`;
    const message = `${shown} is open to other users (mode ${mode})`;
    if (tokens.includes(name))
      return [problem(message, `${advice}, and make a new token if somebody may have seen it`)];
    const leaked = `${advice}, and run \`perdure token rotate-secret --after 0s --grace 1m\` if somebody may have seen it`;
    return [name === SECRET_FILE ? problem(message, leaked) : warning(message, advice)];
  });
  return wanted.length > 0 ? wanted : [ok("only its owner can read it")];
}
