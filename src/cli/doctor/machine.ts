/** This machine: Node, the SQLite driver, and the room on the disk of the data. */
import { randomBytes } from "node:crypto";
import { open, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { driverName } from "../../store/open.ts";
import { showBytes } from "../config/show-value.ts";
import { version } from "../version.ts";
import { type Found, ok, problem, warning } from "./finding.ts";

const OLDEST = [20, 19] as const;
const LOW_SHARE = 0.05;
const LOW_BYTES = 1e9;

export async function checkNode(found = process.versions.node): Promise<Found[]> {
  const [major = 0, minor = 0] = found.split(".").map(Number);
  const isOld = major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]);
  if (isOld) return [problem(`Node ${found} is too old`, `use Node ${OLDEST.join(".")} or later`)];
  return [ok(`Perdure ${version()} on Node ${found}`)];
}

export async function checkDriver(): Promise<Found[]> {
  return [ok(await driverName())];
}

export async function checkDisk(dir: string): Promise<Found[]> {
  const { bavail, blocks, bsize } = await statfs(dir);
  return [judgeDisk(bavail * bsize, blocks * bsize), ...(await brokenWrites(dir))];
}

/** A disk that fails is seen by writing to it, and by nothing else. */
async function brokenWrites(dir: string): Promise<Found[]> {
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
    const advice = "check the log of the system (`dmesg`), and free space or replace the disk";
    return [problem(`a file in ${dir} cannot be written and flushed: ${code ?? message}`, advice)];
  }
}

/** Some file systems do not say how large they are. */
export function judgeDisk(free: number, whole: number): Found {
  const share = whole > 0 ? free / whole : 1;
  const words = `${rounded(free)} free, ${Math.floor(share * 100)} %`;
  if (share >= LOW_SHARE && free >= LOW_BYTES) return ok(words);
  return warning(`little room: ${words}`, "make room; without any, jobs can be neither stored nor settled");
}

function rounded(bytes: number): string {
  const unit = bytes >= 1e9 ? 1e8 : 1e5;
  return bytes >= 1e6
    ? `${(Math.floor(bytes / unit) * unit) / (unit * 10)} ${unit === 1e8 ? "GB" : "MB"}`
    : showBytes(bytes);
}
