import { existsSync, mkdtempSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { audit } from "../conformance/audit.ts";
import { newJob, T0 } from "../conformance/kit.ts";
import type { Store } from "../store.ts";
import { openSqlite } from "./open.ts";

let directory: string;
let path: string;
let store: Store;
let lines: string[];
let kept: string[];

const open = (report?: (line: string) => void) =>
  openSqlite({
    path,
    random: () => 0,
    newSecret: () => crypto.randomUUID(),
    ...(report === undefined ? {} : { report }),
  });

beforeEach(async () => {
  const outer = mkdtempSync(join(tmpdir(), "perdure-place-"));
  directory = join(outer, "data");
  path = join(directory, "jobs.db");
  [lines, kept] = [[], []];
  store = await open((line) => lines.push(line));
  const opened = store;
  onTestFinished(async () => {
    await opened.close();
    rmSync(outer, { recursive: true });
  });
  await insert();
});

async function insert(): Promise<void> {
  const job = newJob();
  await store.insert([job], T0);
  kept.push(job.id);
}

/** Resolves when it stores again. */
async function stores(): Promise<void> {
  await expect.poll(() => insert().then(() => store.fault?.()), { interval: 10 }).toBeNull();
}

const refusal = (message: RegExp) => ({ code: "store_unavailable", message: expect.stringMatching(message) });

describe("a database whose files are moved away while it is in use", () => {
  test.each([
    ["its directory", () => directory, /jobs\.db was deleted or moved while .*; restore the file/],
    ["the file alone", () => path, /jobs\.db was deleted or moved while .*; restore the file/],
    ["its write-ahead log", () => `${path}-wal`, /jobs\.db-wal was deleted or moved while .*; restore the file/],
  ])("refuses writes and names the file, reads, and stores again when %s is back", async (_, what, message) => {
    const from = what();
    renameSync(from, `${from}.aside`);
    await expect(insert()).rejects.toMatchObject(refusal(message));
    expect(store.fault?.()?.cause).toMatch(message);
    expect(await store.jobs(kept)).toMatchObject(kept.map((id) => ({ id })));
    await new Promise((resolve) => setTimeout(resolve, 30)); // it tries to reopen it, at once and repeatedly
    expect(existsSync(from)).toBe(false);
    renameSync(`${from}.aside`, from);
    await stores();
    expect(lines).toEqual([
      expect.stringMatching(/^store_down: .* it will be reopened when the file is back$/),
      expect.stringMatching(/^store_up: /),
    ]);
    await store.close();
    store = await open();
    expect(await store.jobs(kept)).toMatchObject(kept.map((id) => ({ id })));
    await audit(store);
    await store.close();
  });

  test("does not acknowledge what it committed after they were moved", async () => {
    const moveAway = () => {
      renameSync(directory, `${directory}.aside`);
      return { status: "refused", code: "invalid_state", message: "moved" } as const;
    };
    const cancel = [{ jobId: kept[0] as string, command: { kind: "cancel" } as const }];
    await expect(store.amend(cancel, T0, moveAway as never)).rejects.toMatchObject({
      code: "store_unknown",
      message: expect.stringMatching(/^the file was moved or replaced during the commit/),
    });
    renameSync(`${directory}.aside`, directory);
    await stores();
  });
});

test("a database replaced by another one is not reopened with less than it had stored", async () => {
  renameSync(directory, `${directory}.aside`);
  await expect(insert()).rejects.toThrow();
  renameSync(`${directory}.aside`, directory);
  await stores(); // the log was copied into the file, and reset
  // The index of the log stays, and then belongs to the other database.
  for (const end of ["", "-wal"]) renameSync(path + end, `${path}.aside${end}`);
  const other = await open();
  await other.insert([newJob()], T0);
  await expect(insert()).rejects.toMatchObject(refusal(/jobs\.db was replaced by another file/));
  await other.close();
  for (const end of ["", "-wal"]) renameSync(`${path}.aside${end}`, path + end);
  await expect
    .poll(() => lines.at(-1), { interval: 10, timeout: 10_000 })
    .toMatch(/holds (another|an older state of the) database/);
  await expect(insert()).rejects.toMatchObject({ code: "store_unavailable" });
});

test("a database opened through a link counts as unchanged", async () => {
  await store.close();
  const link = join(directory, "link.db");
  symlinkSync(path, link);
  path = link;
  store = await open();
  await insert();
  await insert();
  expect(store.fault?.()).toBeNull();
  await store.close();
});
