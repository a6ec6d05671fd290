import { readdirSync } from "node:fs";
import { expect, it, onTestFinished } from "vitest";
import { keeper, placed } from "../../../test/http-worker/file-keeper.ts";
import { refusal } from "../../../test/http-worker/link-kit.ts";
import { fetchEarlier } from "./earlier-files.ts";
import { remoteDirectories } from "./remote-directories.ts";

async function open() {
  const { put } = keeper();
  const { attempt, link, dir } = await placed(put);
  const { parts, sessionOf } = link;
  const places = await remoteDirectories({ parts, sessionOf, dir, keepMs: 1e12, keepBytes: 1e9, log: () => {} });
  onTestFinished(() => places.close());
  return { places, attempt, dir };
}

it("removes the directory of a job that ended while the last attempt of it is let go", async () => {
  const { places, attempt, dir } = await open();
  for (let round = 0; round < 30; round++) {
    await places.begin("job_1", 1, false, attempt);
    await places.finish?.(attempt);
    // As a worker does: both at once, and neither waits for the other.
    await Promise.all([places.release?.(attempt), places.tidy("job_1")]);
    expect(readdirSync(dir)).toEqual([]);
  }
});

it("keeps it for the next attempt where the job goes on", async () => {
  const { places, attempt, dir } = await open();
  await places.begin("job_1", 1, false, attempt);
  await places.finish?.(attempt);
  await places.release?.(attempt);
  expect(readdirSync(dir)).toEqual(["job_1"]);
});

it("leaves no empty file where the attempt before left none", async () => {
  const { files, attempt, dir } = await placed(() => refusal(404, "not_found"));
  await fetchEarlier(files, attempt, { attempt: 1, files: [], more: 0 }, dir);
  expect(readdirSync(dir)).toEqual(["artifacts"]);
});
