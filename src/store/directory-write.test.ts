/** Files that are written while others remove the folders on the way, which are empty for a moment between two files. */
import type * as FsPromises from "node:fs/promises";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { idMaker } from "../lib/id.ts";
import { directoryWriter } from "./directory-write.ts";

/** The folder `staged`, and before or behind which calls it is removed. */
const gone = vi.hoisted(() => ({ folder: "", at: [] as string[], removed: 0 }));

vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof FsPromises>();
  const remove = async (step: string) => {
    const place = gone.at.indexOf(step);
    if (place < 0) return;
    if (!step.startsWith("always")) gone.at.splice(place, 1);
    gone.removed += 1;
    await real.rm(gone.folder, { recursive: true, force: true });
  };
  const around = async <T>(call: string, path: unknown, run: () => Promise<T>): Promise<T> => {
    const name = `${call} ${basename(String(path))}`;
    await remove(`before ${name}`);
    const answer = await run();
    await remove(`after ${name}`);
    await remove(`always after ${name}`);
    return answer;
  };
  return {
    ...real,
    mkdir: (path: string, options: object) => around("mkdir", path, () => real.mkdir(path, options)),
    lstat: (path: string) => around("lstat", path, () => real.lstat(path)),
    open: (path: string, flags: number, mode: number) => around("open", path, () => real.open(path, flags, mode)),
    rename: (from: string, to: string) => around("rename", from, () => real.rename(from, to)),
  };
});

const newId = idMaker({ now: () => 1_000, randomBytes: (bytes) => bytes.fill(7) });

async function open() {
  const root = await mkdtemp(join(tmpdir(), "perdure-write-"));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  const job = newId("job");
  gone.folder = join(root, job, "attempt_1", "staged");
  async function* source() {
    yield Buffer.from("hi");
  }
  const write = () =>
    directoryWriter(root).write(job, 1, "artifacts/a.txt", 0, source(), { upload: 7, last: true, length: 2 });
  return { path: join(root, job, "attempt_1", "artifacts", "a.txt"), write };
}

it.each([
  "after mkdir staged",
  "after lstat staged",
  "after mkdir 7",
  "after lstat 7",
  "after mkdir artifacts",
  "before open a.txt",
])("a file is stored where its empty folders are removed %s", async (step) => {
  const { path, write } = await open();
  Object.assign(gone, { at: [step], removed: 0 });
  expect(await write()).toEqual({ size: 2 });
  expect([await readFile(path, "utf8"), gone.removed]).toEqual(["hi", 1]);
});

it("fails where they are removed again and again", async () => {
  const { write } = await open();
  Object.assign(gone, { at: ["always after mkdir staged"], removed: 0 });
  await expect(write()).rejects.toMatchObject({ code: "ENOENT" });
  expect(gone.removed).toBe(50);
});
