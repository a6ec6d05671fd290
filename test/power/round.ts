/** One round: fills a disk, cuts its power at a random moment, and checks what is left. */
import { setMaxListeners } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JobOutputs } from "../../src/core/api/outputs.ts";
import type { Perdure as Face } from "../../src/core/api.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { sleep } from "../../src/lib/clock.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { openDatabase } from "../../src/store/sqlite/driver.ts";
import { type Disk, signalAll, treeOf } from "./disk.ts";
import { type Acknowledged, Runs, sha256, startUp, submitTo } from "./load.ts";

export interface Round {
  readonly afterMs: number;
  readonly jobs: number;
  readonly files: number;
  /** What was acknowledged and is missing. */
  readonly wrong: string[];
  /** Whether unflushed data was lost, as it must be: otherwise nothing was tested. */
  readonly isHarsh: boolean;
}

/** When the power is cut: after this many jobs have ended, and this long after that. */
export interface Moment {
  readonly ends: number;
  readonly ms: number;
}

/** However slow the machine is. */
const MAX_LOAD_MS = 20_000;
const TOKEN = /^pdr_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{43}\n$/;
const CONTROL_ROWS = 50;

export async function powerRound(disk: Disk, moment: Moment, env: NodeJS.ProcessEnv): Promise<Round> {
  const [up, run, control] = ["up", "run", "control"].map((name) => join(disk.dir, name)) as [string, string, string];
  const acks: Acknowledged[] = [];
  const runAcks: Acknowledged[] = [];
  const runs = new Runs();
  disk.mountEmpty();
  mkdirSync(control);
  const running = runs.go(run, "run", env, runAcks);
  running.catch(() => {}); // reported below
  const server = await startUp(up, env);
  const stop = new AbortController();
  setMaxListeners(0, stop.signal); // one for each awaited job
  const loads = [1, 2, 3].map((n) => submitTo(server.client, `up-${n}`, stop.signal, acks));
  for (const load of loads) load.catch(() => {});
  await writeUnflushed(control);
  const before = Date.now();
  const hasEnded = () => [...acks, ...runAcks].filter(({ files }) => files !== null).length >= moment.ends;
  while (!hasEnded() && Date.now() - before < MAX_LOAD_MS) await sleep(systemClock, 5);
  await sleep(systemClock, moment.ms);
  const afterMs = Date.now() - before;
  const tree = () => [server.child.pid, runs.running?.pid].flatMap((pid) => (pid === undefined ? [] : treeOf(pid)));
  runs.stop();
  signalAll(tree(), "SIGSTOP");
  signalAll(tree(), "SIGSTOP"); // those that were started meanwhile
  disk.copy();
  // Acknowledgements sent before the stop may still arrive; they were durable before they were sent.
  await sleep(systemClock, 50);
  stop.abort();
  signalAll(tree(), "SIGKILL");
  await Promise.allSettled([...loads, running]);
  await server.client.close();
  const wrong: string[] = [];
  for (const load of [...loads, running]) await load.catch((error: unknown) => wrong.push(`before the cut: ${error}`));
  await ended(server.child.pid as number);

  await disk.mountCopy();
  const isHarsh = await lostUnflushed(control);
  wrong.push(...tokensLost(up, server.token));
  for (const dir of [up, run]) wrong.push(...(await damageIn(join(dir, "perdure.db"))));
  const files = await lookAtRuns(run, runAcks, wrong);
  const more = await lookAtServer(up, env, acks, wrong);
  await disk.unmount();
  return { afterMs, jobs: acks.length + runAcks.length, files: files + more, wrong, isHarsh };
}

/** A file and rows of a database that are never flushed: a cut that keeps them is not a cut. */
async function writeUnflushed(dir: string): Promise<void> {
  writeFileSync(join(dir, "file"), "x".repeat(10_000));
  const db = await openDatabase(join(dir, "rows.db"));
  db.exec("pragma journal_mode = wal; create table t (n); pragma synchronous = off");
  for (let n = 0; n < CONTROL_ROWS; n++) db.exec(`insert into t values (${n})`);
  db.close();
}

async function lostUnflushed(dir: string): Promise<boolean> {
  const size = sizeOf(join(dir, "file"));
  let rows = 0;
  try {
    const db = await openDatabase(join(dir, "rows.db"));
    rows = (db.prepare("select count(*) as n from t").get() as { n: number }).n;
    db.close();
  } catch {
    // Not even the table is left.
  }
  return size < 10_000 && rows < CONTROL_ROWS;
}

function sizeOf(path: string): number {
  try {
    return readFileSync(path).length;
  } catch {
    return 0;
  }
}

function tokensLost(dir: string, token: string): string[] {
  return ["token", "worker-token"].flatMap((name) => {
    let text = "";
    try {
      text = readFileSync(join(dir, name), "utf8");
    } catch {
      return [`${name} is missing`];
    }
    if (!TOKEN.test(text)) return [`${name} has ${text.length} bytes and is not a token`];
    return name === "token" && text.trim() !== token ? ["the token has changed"] : [];
  });
}

async function damageIn(path: string): Promise<string[]> {
  const db = await openDatabase(path);
  try {
    const rows = db.prepare("pragma integrity_check").all() as { integrity_check: string }[];
    return rows.filter((row) => row.integrity_check !== "ok").map((row) => `${path}: ${row.integrity_check}`);
  } catch (error) {
    return [`${path}: ${String(error)}`];
  } finally {
    db.close();
  }
}

async function lookAtRuns(dir: string, acks: readonly Acknowledged[], wrong: string[]): Promise<number> {
  if (acks.length === 0) return 0;
  await using perdure = await Perdure.open({ url: join(dir, "perdure.db"), logger: () => {} });
  return await lookAt(perdure, acks, wrong);
}

/** The server starts again on what is left, and has all of it. */
async function lookAtServer(dir: string, env: NodeJS.ProcessEnv, acks: readonly Acknowledged[], wrong: string[]) {
  // Calls that the server refuses on a busy machine are repeated: only missing data counts.
  const again = await startUp(dir, env, "60s").catch((error: unknown) => {
    wrong.push(`after the cut: ${error}`);
    return null;
  });
  if (again === null) return 0;
  try {
    return await lookAt(again.client, acks, wrong);
  } finally {
    await again.client.close();
    signalAll(treeOf(again.child.pid as number), "SIGKILL");
    await ended(again.child.pid as number);
  }
}

async function lookAt(
  perdure: Pick<Face, "outputs" | "job">,
  acks: readonly Acknowledged[],
  wrong: string[],
): Promise<number> {
  let count = 0;
  for (const { id, word, files } of acks) {
    const job = await perdure
      .job(id)
      .then((handle) => handle.get())
      .catch((error: unknown) => error as Error);
    if (job instanceof Error) wrong.push(`${word} (${id}) is missing: ${job.message}`);
    else if (files !== null && job.state !== "succeeded") wrong.push(`${word} (${id}) is ${job.state} again`);
    else if (files !== null) count += await lookAtFiles(await perdure.outputs(id), files, `${word} (${id})`, wrong);
  }
  return count;
}

async function lookAtFiles(outputs: JobOutputs, files: ReadonlyMap<string, string>, name: string, wrong: string[]) {
  const attempt = outputs.attempts.at(-1) ?? 1;
  for (const [file, hash] of files) {
    const source = await outputs.read(attempt, file);
    const chunks: Uint8Array[] = [];
    for await (const chunk of source ?? []) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    if (sha256(bytes) !== hash)
      wrong.push(`${name}: ${file} has ${bytes.length} bytes, and not those that were stored`);
  }
  return files.size;
}

/** Until none of its processes uses the disk. */
async function ended(pid: number): Promise<void> {
  for (let left = 500; left > 0 && treeOf(pid).length > 0; left--) await sleep(systemClock, 10);
}
