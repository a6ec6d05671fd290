/** The directory that all workers of a user on this host share. It outlives them, so that the next attempt of a job finds here
 *  what the one before left, scratch files too, also after its worker was killed:
 *
 *    <root>/<jobId>/attempt_<n>/        as the command sees it
 *    <root>/<jobId>/attempt_<n>.held    while a worker holds it: by which process
 *    <root>/<jobId>/.keep               its scratch files are to stay when it ends, as it asks
 *
 *  A job that has ended is removed at once by the worker that reported its end. Of all others nobody here hears how they end:
 *  they are kept up to an age and a number of bytes, the last used first. Nothing of a job with an attempt that is held is
 *  ever removed. What is removed is moved aside first, in one step: whoever comes at the same moment finds all or nothing. */
import { chmod, lstat, mkdir, readdir, rename, rm, utimes, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { ConfigError } from "../../core/errors.ts";
import { openPlain, removeAll, sizeBelow } from "../../files/plain-files.ts";
import type { Clock } from "../../lib/clock.ts";
import { removeGiven } from "../exec/run-user.ts";
import { hasEnded, isOfThisBoot, processName } from "../process-proof.ts";

export interface HostDirectoryOptions {
  readonly root: string;
  readonly clock: Clock;
  /** For how long, and up to how many bytes in all, jobs are kept that no worker holds. */
  readonly keepMs: number;
  readonly keepBytes: number;
  readonly log: (level: "warn", message: string) => void;
  /** Commands run as another user, who must be able to pass to the directory of an attempt, and to see nothing on the way. */
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
/** Where the kernel knows nothing of the process, as in another container, this long without a sign means that it is gone. */
const SILENT_MS = 600_000;
/** More than this is not counted: what is not counted is not kept. */
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
    // In a directory for everybody somebody else may have been first, and would own what commands write.
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

  /** Makes the directory of an attempt, which is held until it is released. */
  async begin(jobId: string, attempt: number, keep: boolean): Promise<string> {
    const dir = this.dirOf(jobId, attempt);
    for (let left = TRIES; ; left--) {
      try {
        await mkdir(join(dir, ".."), { recursive: true, mode: 0o700 });
        if (this.#options.isPassable) await chmod(join(dir, ".."), PASSABLE);
        if (keep) await writeFile(join(dir, "..", KEEP), "", { mode: 0o600 });
        await writeFile(`${dir}${HELD}`, JSON.stringify({ pid: process.pid, process: processName() }), { mode: 0o600 });
        this.#held.add(`${dir}${HELD}`);
        // Of a job that a restored backup has brought back. What another user may still change is not removed as root.
        if (!(await removeGiven(join(dir, ".."), [`attempt_${attempt}`]))) {
          throw new Error(`${dir} belongs to another user and cannot be removed; remove it`);
        }
        await removeAll(dir);
        await mkdir(dir, { mode: 0o700 });
        await mkdir(join(dir, "artifacts"), { mode: 0o700 });
        return dir;
      } catch (error) {
        // The job was moved aside in this very moment.
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

  /** The attempts of a job that lie here, in order. */
  async attempts(jobId: string): Promise<number[]> {
    const names = await readdir(join(this.#options.root, jobId)).catch(() => []);
    return names
      .flatMap((name) => ATTEMPT.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => a - b);
  }

  /** Puts an attempt here that ran elsewhere: under its name when all of it has come. */
  async adopt(jobId: string, attempt: number, fill: (dir: string) => Promise<void>): Promise<string> {
    const dir = this.dirOf(jobId, attempt);
    const coming = join(dir, "..", `.coming-${process.pid}-${++made}`);
    try {
      await mkdir(coming, { mode: 0o700 });
      await fill(coming);
      await rename(coming, dir);
      return dir;
    } catch (error) {
      // It may have been given to the user of the commands already.
      if (await removeGiven(join(dir, ".."), [basename(coming)])) await removeAll(coming);
      // Another worker of this host has brought it.
      if (codeOf(error) === "ENOTEMPTY" || codeOf(error) === "EEXIST") return dir;
      throw error;
    }
  }

  /** Removes what a job that has ended left; not while somebody holds an attempt of it, nor where it asked to keep it. */
  async removeJob(jobId: string): Promise<void> {
    const dir = join(this.#options.root, jobId);
    const names: string[] = await readdir(dir).catch(() => []);
    if (!names.includes(KEEP) && !(await this.#isHeld(dir))) await this.#moveAway(dir);
  }

  /** Removes what is older, or more, than is to be kept. Never throws. */
  sweep(): Promise<void> {
    this.#sweeping = this.#sweeping
      .then(() => this.#sweep())
      .catch((error: unknown) => {
        if (!this.#isClosed) this.#options.log("warn", `cannot clean up ${this.#options.root}: ${String(error)}`);
      });
    return this.#sweeping;
  }

  /** Lets go of what is held. The directory stays. */
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
      // Of a process that died over it.
      if (name.startsWith(ASIDE) && now - found.ctimeMs > SILENT_MS) {
        if (await removeGiven(dir, await readdir(dir).catch(() => []))) await removeAll(dir);
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

  /** Moves it aside, and removes it unless somebody has come to hold it meanwhile. */
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
    if (await removeGiven(aside, await readdir(aside).catch(() => []))) await removeAll(aside);
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
      // It does not exist any more, or a command has replaced it: then its age decides.
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

/** The beginning of a small file; "" for what is not a plain file: a command of our own user may have put a pipe there. */
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

/** When a job was last used: the mark of a worker that was killed tells how long it lived. */
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
