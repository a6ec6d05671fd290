/** F15, F32: the process is killed, or the disk fails, at an exact point: the N-th flush. Injected by strace; without
 *  strace these tests are skipped with the reason. */
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { openDatabase } from "../../src/store/sqlite/driver.ts";
import { IS_FULL, inFull } from "../tier.ts";
import { audit } from "./audit.ts";
import { Dice, LineFile, newFile, open, start, TEST_MS } from "./kit.ts";
import { notTested, straceProblem } from "./strace.ts";

const SYNCS = "fsync,fdatasync"; // which one depends on how SQLite was built

const why = straceProblem();

/** Opening a new file takes about seven; each submit, and each beat of the engine, one more. */
const POINTS = IS_FULL ? [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] : [5];
const OPENED = 8;

if (why === null) {
  describe("at the N-th sync", () => {
    const dice = new Dice("strace");
    const later = [dice.between(11, 80), dice.between(11, 20), dice.between(21, 40), dice.between(41, 80)] as const;
    const points = [...POINTS, ...inFull(later)];

    it.each(points)(
      "a kill (N = %i) loses nothing acknowledged, and leaves an intact file",
      (n) => killedAt(SYNCS, n, dice.pick([1, 1, 10])),
      TEST_MS,
    );

    it.each(points)(
      "a disk error (N = %i) is reported, and affected calls are not acknowledged",
      async (n) => {
        const url = newFile();
        const { acks, ended, lines } = await submitUnder(`inject=${SYNCS}:error=EIO:when=${n}`, url, 1);
        if (lines.includes("done")) {
          // SQLite ignores a directory that cannot be synced, which happens only while the file is created.
          expect(n).toBeLessThan(OPENED);
        } else {
          expect(ended).toEqual({ code: 1, signal: null });
          expect(lines.at(-1)).toMatch(/^error store_(io|unknown|unavailable) .*disk I\/O error/);
        }
        await expectAllThere(url, acks, 1);
      },
      TEST_MS,
    );

    it.each(inFull([1, 2, 3, 4, 5, 6]).map((i) => dice.between(i * 10, i * 50)))(
      "a kill in the middle of a transaction (write N = %i) loses nothing acknowledged, and leaves an intact file",
      (n) => killedAt("pwrite64", n, 10),
      TEST_MS,
    );

    // What the last process does on close: it copies the log into the file and removes it. How many calls that takes
    // depends on SQLite; numbers beyond the last find nothing to kill.
    it.each(inFull([2, 3, 4, 5]).flatMap((n) => [["ftruncate,unlink", n] as const, [SYNCS, n + 8] as const]))(
      "a kill while the store is closed (%s, N = %i) loses nothing acknowledged, and leaves an intact file",
      async (calls, n) => {
        const url = newFile();
        const { acks, errors } = await submitUnder(`inject=${calls}:signal=SIGKILL:when=${n}`, url, 1, 3);
        expect(errors).toBe("");
        await expectAllThere(url, acks, 1);
      },
      TEST_MS,
    );
  });
} else {
  notTested("test/crash/strace-kill.test.ts", why);
}

async function killedAt(calls: string, n: number, batch: number): Promise<void> {
  const url = newFile();
  const fault = `inject=${calls}:signal=SIGKILL:when=${n}`;
  const { acks, ended, lines, errors } = await submitUnder(fault, url, batch);
  // strace exits by the signal that killed its tracee.
  expect([ended.signal, lines.includes("done"), errors]).toEqual(["SIGKILL", false, ""]);
  await expectAllThere(url, acks, batch);
}

async function submitUnder(fault: string, url: string, batch: number, jobs = 120 * batch) {
  const acks = new LineFile(join(dirname(url), "acks"));
  const strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", fault];
  const child = start("submitter", { url, from: 0, to: jobs, acks: acks.path, batch }, strace);
  const ended = await child.ended;
  return { acks: acks.look(), ended, lines: child.lines, errors: child.errors };
}

async function expectAllThere(url: string, acks: readonly string[], batch: number): Promise<void> {
  const perdure = await open(url);
  const { jobs } = await audit(perdure);
  for (const line of acks) {
    const [i, id = ""] = line.split(" ");
    expect(jobs.get(id)).toMatchObject({ key: `job-${i}`, state: "queued", payload: { i: Number(i) } });
  }
  expect(jobs.size).toBeLessThanOrEqual(acks.length + batch);
  // Repeating all submits creates each job once.
  const again = Array.from({ length: acks.length + batch }, (_, i) => ({
    task: "job",
    input: { i, work: "quick" },
    options: { key: `job-${i}` },
  }));
  const ids = (await perdure.submitMany(again)).map((answer) => answer.ok && answer.job.id);
  expect(ids.slice(0, acks.length)).toEqual(acks.map((line) => line.split(" ")[1]));
  expect((await audit(perdure)).jobs.size).toBe(again.length);
  await perdure.close();

  const db = await openDatabase(url);
  expect(db.prepare("pragma integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
  db.close();
}
