/** Checks of `perdure doctor` that need no server: Node, driver and disk; settings; the data directory; the schema
 *  and the SQLite file. */
import { randomBytes } from "node:crypto";
import { statSync } from "node:fs";
import { open, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../lib/system-clock.ts";
import { driverName, isPostgres, schemaVersion, storeFaults } from "../../store/open.ts";
import type { CommandContext } from "../command.ts";
import { unknownVariables } from "../commands/config.ts";
import { loadConfig } from "../config/config.ts";
import { readConfigFile } from "../config/config-file.ts";
import { KEYS, settingOf } from "../config/settings.ts";
import { showBytes } from "../config/show-value.ts";
import { SECRET_FILE } from "../serve/secret-file.ts";
import { type DataDir, holdsData, makeDataDirectory } from "../target/data-directory.ts";
import type { StoreTarget } from "../target/store-target.ts";
import { TOKEN_FILE, WORKER_TOKEN_FILE } from "../target/token-file.ts";
import { version } from "../version.ts";
import { type CheckResult, errorText, note, ok, problem, warning } from "./finding.ts";

const OLDEST = [20, 19] as const;
const LOW_SHARE = 0.05;
const LOW_BYTES = 1e9;

export async function checkNode(found = process.versions.node): Promise<CheckResult[]> {
  const [major = 0, minor = 0] = found.split(".").map(Number);
  const isOld = major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]);
  if (isOld) return [problem(`Node ${found} is too old`, `use Node ${OLDEST.join(".")} or later`)];
  return [ok(`Perdure ${version()} on Node ${found}`)];
}

export async function checkDriver(): Promise<CheckResult[]> {
  return [ok(await driverName())];
}

export async function checkDisk(dir: string): Promise<CheckResult[]> {
  const { bavail, blocks, bsize } = await statfs(dir);
  return [judgeDisk(bavail * bsize, blocks * bsize), ...(await brokenWrites(dir))];
}

/** A failing disk is detected only by writing. */
async function brokenWrites(dir: string): Promise<CheckResult[]> {
  const path = join(dir, `.probe-${randomBytes(6).toString("hex")}`);
  try {
    const file = await open(path, "wx", 0o600);
    try {
      await file.writeFile("probe");
      await file.sync();
    } finally {
      await file.close();
      await rm(path, { force: true });
    }
    return [];
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const advice = "check the system log (`dmesg`), and free space or replace the disk";
    return [problem(`cannot write and flush a file in ${dir}: ${code ?? message}`, advice)];
  }
}

/** Some file systems do not report their size. */
export function judgeDisk(free: number, whole: number): CheckResult {
  const share = whole > 0 ? free / whole : 1;
  const words = `${rounded(free)} free, ${Math.floor(share * 100)} %`;
  if (share >= LOW_SHARE && free >= LOW_BYTES) return ok(words);
  return warning(`low disk space: ${words}`, "free some space; without any, jobs can be neither stored nor finished");
}

function rounded(bytes: number): string {
  const unit = bytes >= 1e9 ? 1e8 : 1e5;
  return bytes >= 1e6
    ? `${(Math.floor(bytes / unit) * unit) / (unit * 10)} ${unit === 1e8 ? "GB" : "MB"}`
    : showBytes(bytes);
}

export async function checkSettings({ given, io }: CommandContext): Promise<CheckResult[]> {
  const found: CheckResult[] = [];
  try {
    const values = readConfigFile({ io, named: given.text("config") });
    const files = new Set([...values.values()].map(({ source }) => source.replace(/:\d+$/, "")));
    found.push(ok(files.size === 0 ? "no settings file" : `${[...files].join(", ")} is valid`));
  } catch (error) {
    found.push(problem(errorText(error), "fix the file"));
  }
  return [...found, ...wrongVariables(io), ...unknownVariables(io.env).map((text) => note(text))];
}

/** Checks each variable by itself, without the file, which was already checked. */
function wrongVariables(io: CommandContext["io"]): CheckResult[] {
  const alone = { ...io, cwd: "/dev/null", env: { ...io.env, PERDURE_CONFIG: undefined } };
  return KEYS.flatMap((key) => {
    const { env } = settingOf(key);
    if (env === undefined || !io.env[env]) return [];
    try {
      loadConfig({ io: alone }, [key]);
      return [];
    } catch (error) {
      return [problem(errorText(error), `change ${env}, or unset it`)];
    }
  });
}

const OTHERS = 0o077;

/** `isServed`: a server is running on it; its database may be elsewhere. */
export async function checkData(dir: DataDir, isServed: boolean): Promise<CheckResult[]> {
  const stat = statSync(dir.path, { throwIfNoEntry: false });
  if (stat === undefined || !stat.isDirectory() || (!isServed && !holdsData(dir))) {
    return [
      problem(`no Perdure data in ${dir.given}`, "start with `perdure up`, or pass another directory with --data"),
    ];
  }
  return [writable(dir), ...modes(dir)];
}

function writable(dir: DataDir): CheckResult {
  try {
    makeDataDirectory(dir);
    return ok(`${dir.given} exists and is writable`);
  } catch (error) {
    return problem(errorText(error), "make it writable for the user who runs Perdure");
  }
}

/** Jobs may contain secrets, and tokens grant access. */
function modes({ path, given }: DataDir): CheckResult[] {
  const tokens = [TOKEN_FILE, WORKER_TOKEN_FILE];
  const wanted = [".", "perdure.db", "perdure.db-wal", ...tokens, SECRET_FILE].flatMap((name) => {
    const stat = statSync(join(path, name), { throwIfNoEntry: false });
    if (stat === undefined || (stat.mode & OTHERS) === 0) return [];
    const shown = join(given, name);
    const mode = (stat.mode & 0o777).toString(8).padStart(4, "0");
    const advice = `chmod ${stat.isDirectory() ? "700" : "600"} ${shown}`;
    const message = `${shown} is open to other users (mode ${mode})`;
    if (tokens.includes(name))
      return [problem(message, `${advice}, and create a new token if somebody may have seen it`)];
    const leaked = `${advice}, and run \`perdure token rotate-secret --after 0s --grace 1m\` if somebody may have seen it`;
    return [name === SECRET_FILE ? problem(message, leaked) : warning(message, advice)];
  });
  return wanted.length > 0 ? wanted : [ok("only its owner can read it")];
}

// The store of data without a server: its schema, and the integrity of a SQLite file. Nothing is migrated.

interface StoreCheckResult {
  readonly found: readonly CheckResult[];
  /** It can be opened without a migration. */
  readonly isCurrent: boolean;
}

export async function checkStore(place: StoreTarget): Promise<StoreCheckResult> {
  const [version, faults] = [await checkVersion(place), await checkFile(place)];
  return { found: [...version.found, ...faults], isCurrent: version.isCurrent };
}

async function checkVersion({ url, schema, shown, isData }: StoreTarget): Promise<StoreCheckResult> {
  try {
    const { found, known } = await schemaVersion({ url, schema, clock: systemClock, random: Math.random });
    if (found === known) return { found: [ok(`${shown} has schema ${known}`)], isCurrent: true };
    const option = isData ? "" : " with the same --db";
    if (found === 0) {
      const message = `${shown} has no Perdure tables yet`;
      return { found: [warning(message, `run \`perdure migrate\`${option}, or start a server`)], isCurrent: false };
    }
    const message = `${shown} has schema ${found}, and this version requires ${known}`;
    return { found: [warning(message, `run \`perdure migrate\`${option}`)], isCurrent: false };
  } catch (error) {
    return { found: [problem(errorText(error), null)], isCurrent: false };
  }
}

async function checkFile({ url, dir, isData }: StoreTarget): Promise<CheckResult[]> {
  if (isPostgres(url)) return [];
  try {
    const faults = await storeFaults({ url, random: Math.random });
    if (faults.length === 0) return [ok("the SQLite file is intact")];
    const advice = `stop all processes that use it, keep a copy, and restore a backup of ${isData ? dir.given : "it"}`;
    return faults.map((fault) => problem(`the file is damaged: ${fault}`, advice));
  } catch (error) {
    return [problem(errorText(error), "restore a backup, or choose another file")];
  }
}
