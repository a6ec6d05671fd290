/** The directory that all workers of a user on this host share. It outlives them, so that the next attempt of a job finds the
 *  files of the previous one, scratch files too, even if its worker was killed:
 *
 *    <root>/<jobId>/attempt_<n>/        the directory of the command
 *    <root>/<jobId>/attempt_<n>.held    while a worker holds the attempt: identifies its process
 *    <root>/<jobId>/.keep               the job keeps its scratch files when it ends (option `keep`)
 *
 *  The worker that reports the end of a job removes its files at once. How other jobs end is not known here: their files are kept
 *  up to an age and a total size, the most recently used first. Files of a job with a held attempt are never removed. Files are
 *  renamed before they are removed, so that a concurrent reader finds all of them or none. */
import { chmod, lstat, mkdir, readdir, rename, rm, utimes, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { ConfigError } from "../../core/errors.ts";
import { openPlain, removeAll, sizeBelow } from "../../files/plain-files.ts";
import type { Clock } from "../../lib/clock.ts";
import type { FieldLog } from "../../lib/log.ts";
import { removeAsOwner } from "../exec/run-user.ts";
import { hasEnded, isOfThisBoot, processName } from "../process-proof.ts";

export interface HostDirectoryOptions {
  readonly root: string;
  readonly clock: Clock;
  /** How long, and up to how many bytes in total, files of jobs are kept that no worker holds. */
  readonly keepMs: number;
  readonly keepBytes: number;
  readonly log: FieldLog;
  /** Commands run as another user, who must be able to enter the directory of an attempt, but not to list those above it. */
  readonly isPassable?: boolean;
}

const JOB = /^job_[A-Za-z0-9]+$/;
const ATTEMPT = /^attempt_(\d+)$/;
const HELD = ".held";
const KEEP = ".keep";
const ASIDE = ".removing-";
const PASSABLE = 0o711;
const SWEEP_MS = 300_000;
const TOUCH_MS = 60_000;
/** If the process cannot be checked, as in another container, its mark expires after this long without an update. */
const SILENT_MS = 600_000;
/** More than this is not counted, and files that are not counted are not kept. */
const MAX_JOBS = 10_000;
const MAX_ENTRIES = 200_000;
const TRIES = 5;
const MARK_BYTES = 4_096;

let made = 0;

export class HostDirectory {
  readonly #options: HostDirectoryOptions;
  readonly #held = new Set<string>();
  readonly #timers: (() => void)[] = [];
  #sweeping: Promise<void> = Promise.resolve();
  #isClosed = false;

  private constructor(options: HostDirectoryOptions) {
    this.#options = options;
  }

  static async open(options: HostDirectoryOptions): Promise<HostDirectory> {
    const { root } = options;
    await mkdir(root, { recursive: true, mode: 0o700 });
    const found = await lstat(root);
    // In a world-writable directory another user may have created it first, and would own what commands write.
    if (!found.isDirectory() || (process.getuid !== undefined && found.uid !== process.getuid())) {
      throw new ConfigError({ path: "dir", given: root, allowed: "a directory that belongs to this user" });
    }
    if (options.isPassable) await chmod(root, PASSABLE);
    const host = new HostDirectory(options);
    host.#every(SWEEP_MS, () => host.sweep());
    host.#every(TOUCH_MS, () => host.#touch());
    void host.sweep();
    return host;
  }

  dirOf(jobId: string, attempt: number): string {
    return join(this.#options.root, jobId, `attempt_${attempt}`);
  }

  /** Creates the directory of an attempt and holds it until `release`. */
  async begin(jobId: string, attempt: number, keep: boolean): Promise<string> {
    const dir = this.dirOf(jobId, attempt);
    for (let left = TRIES; ; left--) {
      try {
        await mkdir(join(dir, ".."), { recursive: true, mode: 0o700 });
        if (this.#options.isPassable) await chmod(join(dir, ".."), PASSABLE);
        if (keep) await writeFile(join(dir, "..", KEEP), "", { mode: 0o600 });
        await writeFile(`${dir}${HELD}`, JSON.stringify({ pid: process.pid, process: processName() }), { mode: 0o600 });
        this.#held.add(`${dir}${HELD}`);
        // It can exist if the database was restored from a backup. Files that another user can change are not removed as root.
        if (!(await removeAsOwner(join(dir, ".."), [`attempt_${attempt}`]))) {
          throw new Error(`${dir} belongs to another user and cannot be removed; remove it by hand`);
        }
        await removeAll(dir);
        await mkdir(dir, { mode: 0o700 });
        await mkdir(join(dir, "artifacts"), { mode: 0o700 });
        return dir;
      } catch (error) {
        // Another process has just renamed the job's directory to remove it.
        if (left > 0 && codeOf(error) === "ENOENT") continue;
        await this.release(jobId, attempt);
        throw error;
      }
    }
  }

  async release(jobId: string, attempt: number): Promise<void> {
    const mark = `${this.dirOf(jobId, attempt)}${HELD}`;
    this.#held.delete(mark);
    await rm(mark, { force: true }).catch(() => {});
  }

  /** The attempts of a job with a directory here, in order. */
  async attempts(jobId: string): Promise<number[]> {
    const names = await readdir(join(this.#options.root, jobId)).catch(() => []);
    return names
      .flatMap((name) => ATTEMPT.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => a - b);
  }

  /** Adds the directory of an attempt that ran elsewhere; it gets its name when it is complete. */
  async adopt(jobId: string, attempt: number, fill: (dir: string) => Promise<void>): Promise<string> {
    const dir = this.dirOf(jobId, attempt);
    const incoming = join(dir, "..", `.coming-${process.pid}-${++made}`);
    try {
      await mkdir(incoming, { mode: 0o700 });
      await fill(incoming);
      await rename(incoming, dir);
      return dir;
    } catch (error) {
      // It may already belong to the user of the commands.
      if (await removeAsOwner(join(dir, ".."), [basename(incoming)])) await removeAll(incoming);
      // Another worker of this host has fetched it meanwhile.
      if (codeOf(error) === "ENOTEMPTY" || codeOf(error) === "EEXIST") return dir;
      throw error;
    }
  }

  /** Removes the files of a job that has ended, unless an attempt of it is held or the job keeps its files. */
  async removeJob(jobId: string): Promise<void> {
    const dir = join(this.#options.root, jobId);
    const names: string[] = await readdir(dir).catch(() => []);
    if (!names.includes(KEEP) && !(await this.#isHeld(dir))) await this.#moveAway(dir);
  }

  /** Removes files beyond the limits of age and size. Never throws. */
  sweep(): Promise<void> {
    this.#sweeping = this.#sweeping
      .then(() => this.#sweep())
      .catch((error: unknown) => {
        if (this.#isClosed) return;
        this.#options.log("warn", "cannot clean up attempt directories", {
          dir: this.#options.root,
          error: String(error),
        });
      });
    return this.#sweeping;
  }

  /** Releases what is held. The directory stays. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const cancel of this.#timers) cancel();
    await this.#sweeping;
    for (const mark of this.#held) await rm(mark, { force: true }).catch(() => {});
  }

  async #sweep(): Promise<void> {
    const { root, clock, keepMs, keepBytes } = this.#options;
    const now = clock.now();
    const free: { readonly dir: string; readonly usedAt: number }[] = [];
    for (const name of await readdir(root)) {
      const dir = join(root, name);
      const found = await lstat(dir).catch(() => null);
      if (found === null || !found.isDirectory()) continue;
      // Left by a process that was killed during a removal.
      if (name.startsWith(ASIDE) && now - found.ctimeMs > SILENT_MS) {
        if (await removeAsOwner(dir, await readdir(dir).catch(() => []))) await removeAll(dir);
      }
      if (JOB.test(name) && !(await this.#isHeld(dir))) free.push({ dir, usedAt: await usedAt(dir, found.mtimeMs) });
    }
    free.sort((a, b) => b.usedAt - a.usedAt);
    let [bytes, entries] = [0, 0];
    for (const [i, { dir, usedAt }] of free.entries()) {
      if (this.#isClosed) return;
      const size = now - usedAt > keepMs || i >= MAX_JOBS ? null : await sizeBelow(dir, MAX_ENTRIES - entries);
      if (size === null || bytes + size.bytes > keepBytes) await this.#moveAway(dir);
      else {
        bytes += size.bytes;
        entries += size.entries;
      }
    }
  }

  /** Renames the directory, and removes it unless a worker has begun to hold it meanwhile. */
  async #moveAway(dir: string): Promise<void> {
    const aside = join(this.#options.root, `${ASIDE}${process.pid}-${++made}`);
    try {
      await rename(dir, aside);
    } catch (error) {
      if (codeOf(error) === "ENOENT") return;
      throw error;
    }
    if (
      (await this.#isHeld(aside)) &&
      (await rename(aside, dir).then(
        () => true,
        () => false,
      ))
    )
      return;
    if (await removeAsOwner(aside, await readdir(aside).catch(() => []))) await removeAll(aside);
  }

  async #isHeld(jobDir: string): Promise<boolean> {
    const names = await readdir(jobDir).catch(() => []);
    for (const name of names) if (name.endsWith(HELD) && (await this.#isAlive(join(jobDir, name)))) return true;
    return false;
  }

  async #isAlive(mark: string): Promise<boolean> {
    try {
      const holder = JSON.parse(await textOf(mark)) as { pid: number; process: string | null };
      if (isOfThisBoot(holder)) return !hasEnded(holder);
    } catch {
      // The mark does not exist any more, or a command has replaced it: then its age decides.
    }
    const found = await lstat(mark).catch(() => null);
    return found !== null && this.#options.clock.now() - found.mtimeMs < SILENT_MS;
  }

  async #touch(): Promise<void> {
    const now = new Date(this.#options.clock.now());
    for (const mark of this.#held) await utimes(mark, now, now).catch(() => {});
  }

  #every(ms: number, call: () => Promise<void>): void {
    let cancel = () => {};
    const again = () => {
      cancel = this.#options.clock.after(ms, () => void call().finally(() => this.#isClosed || again()), {
        background: true,
      });
    };
    again();
    this.#timers.push(() => cancel());
  }
}

/** The beginning of a small file; "" if it is not a plain file: a command of the same user may have put a pipe there. */
async function textOf(path: string): Promise<string> {
  const file = await openPlain(path);
  if (file === null) return "";
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(MARK_BYTES), 0, MARK_BYTES, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}

/** When a job was last used: its mark shows how long a worker that was killed was alive. */
async function usedAt(dir: string, changedAt: number): Promise<number> {
  let last = changedAt;
  for (const name of await readdir(dir).catch(() => [])) {
    if (name.endsWith(HELD)) last = Math.max(last, (await lstat(join(dir, name)).catch(() => null))?.mtimeMs ?? 0);
  }
  return last;
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
