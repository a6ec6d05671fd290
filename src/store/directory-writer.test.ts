/** Writes while other calls remove the folders on the path, which are empty for a moment between two files. */
import { mkdtempSync, rmdirSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { directoryWriter } from "./directory-writer.ts";

it("a file is stored even if its empty folders are removed before it exists", async () => {
  const root = mkdtempSync(join(tmpdir(), "perdure-write-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const attempt = join(root, "job_1", "attempt_1");
  const removed: string[] = [];
  let goesOn = true;
  // Between any two calls of the writer, like the end of another upload: folders that are not empty stay.
  const remove = () => {
    for (const folder of ["staged/7/artifacts", "staged/7", "staged"]) {
      try {
        rmdirSync(join(attempt, folder));
        removed.push(folder);
      } catch {
        // It does not exist, or is not empty.
      }
    }
    if (goesOn && removed.length < 10) setImmediate(remove);
  };
  setImmediate(remove);
  async function* source() {
    yield Buffer.from("hi");
  }
  const options = { upload: 7, last: true, length: 2 };
  const written = directoryWriter(root).write("job_1", 1, "artifacts/a.txt", 0, source(), options);
  expect(await written.finally(() => (goesOn = false))).toEqual({ size: 2 });
  expect(await readFile(join(attempt, "artifacts", "a.txt"), "utf8")).toBe("hi");
  expect(removed).toContain("staged");
});
