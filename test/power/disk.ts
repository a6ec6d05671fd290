/** A disk whose power can be cut: an ext4 file system in a file, mounted through a loop device. The file has what a
 *  disk would have: unflushed bytes are only in the memory of the system. A cut stops all writers, copies the file, and
 *  continues with the copy, whose journal is replayed when it is mounted. Linux and root only. */
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { sleep } from "../../src/lib/clock.ts";
import { systemClock } from "../../src/lib/system-clock.ts";

/** Enough for a database whose log is never checkpointed, and the files of a round. */
const IMAGE_MIB = 160;
/** Its own timers flush nothing within a round, and a rename does not flush the renamed file. */
const OPTIONS = "loop,commit=60,noauto_da_alloc,noatime";
const MAX_COPIES = 20;
const UNMOUNT_TRIES = 100;

/** Null: power cuts work here; otherwise the reason why not. */
export function whyNoPower(): string | null {
  if (process.platform !== "linux") return "loop devices are of Linux";
  if (process.getuid?.() !== 0) return "only root may mount";
  const work = mkdtempSync(join(tmpdir(), "perdure-power-"));
  try {
    const script = `set -e; cd "$0"; truncate -s 8M i; mkfs.ext4 -q -F i; mkdir m; mount -o ${OPTIONS} i m; umount m`;
    const tried = spawnSync("unshare", ["-m", "sh", "-c", script, work], { encoding: "utf8" });
    if (tried.error !== undefined) return `unshare cannot be started (${tried.error.message})`;
    return tried.status === 0 ? null : `no loop mounts: ${tried.stderr.trim().split("\n")[0]}`;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

export class Disk {
  /** Where it is mounted. */
  readonly dir: string;
  readonly #work: string;
  readonly #empty: string;

  constructor(work: string) {
    this.#work = work;
    this.dir = join(work, "disk");
    this.#empty = join(work, "empty.img");
    mkdirSync(this.dir);
    run("truncate", "-s", `${IMAGE_MIB}M`, this.#empty);
    run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", this.#empty);
  }

  mountEmpty(): void {
    run("cp", "--sparse=always", this.#empty, this.#image);
    this.#mount(this.#image);
  }

  /** The contents after a power cut at this moment. Writers must have been stopped: two copies must be equal. */
  copy(): void {
    for (let left = MAX_COPIES; left > 0; left--) {
      run("cp", "--sparse=always", this.#image, this.#cut);
      if (spawnSync("cmp", ["-s", this.#image, this.#cut]).status === 0) return;
    }
    throw new Error("a process is still writing to the disk");
  }

  /** Removes the disk and mounts the copy at its path. */
  async mountCopy(): Promise<void> {
    await this.unmount();
    this.#mount(this.#cut);
  }

  /** The SQLite driver of Node 20 releases a file when its statements have been garbage-collected. */
  async unmount(): Promise<void> {
    for (let left = UNMOUNT_TRIES; isMounted(this.dir); left--) {
      collectGarbage();
      await sleep(systemClock, 20);
      const { status, stderr } = spawnSync("umount", [this.dir], { encoding: "utf8" });
      if (status !== 0 && left === 0) throw new Error(`${stderr.trim()}: ${whoHolds(this.dir)}`);
    }
  }

  #mount(image: string): void {
    run("mount", "-o", OPTIONS, image, this.dir);
  }

  get #image(): string {
    return join(this.#work, "disk.img");
  }

  get #cut(): string {
    return join(this.#work, "cut.img");
  }

  /** Keeps the image of a cut for debugging. */
  keep(name: string): string {
    const path = join(tmpdir(), name);
    copyFileSync(this.#cut, path);
    return path;
  }
}

function isMounted(dir: string): boolean {
  return readFileSync("/proc/self/mounts", "utf8")
    .split("\n")
    .some((line) => line.split(" ")[1] === dir);
}

function run(program: string, ...args: string[]): void {
  execFileSync(program, args, { stdio: ["ignore", "ignore", "pipe"] });
}

function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
}

function whoHolds(dir: string): string {
  return spawnSync("fuser", ["-vm", dir], { encoding: "utf8" }).stderr ?? "";
}

/** A process with its descendants, including children of exited ones that have their session. */
export function treeOf(pid: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const fields = readFileSync(`/proc/${name}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ");
      if (fields[0] !== "Z") parents.set(Number(name), Number(fields[1]));
    } catch {
      // It has exited meanwhile.
    }
  }
  const tree = [pid];
  for (let i = 0; i < tree.length; i++) for (const [child, parent] of parents) if (parent === tree[i]) tree.push(child);
  return tree.filter((each) => parents.has(each));
}

export function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      // It has exited meanwhile.
    }
  }
}
