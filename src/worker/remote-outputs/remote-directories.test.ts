import { readdirSync } from "node:fs";
import { expect, it, onTestFinished } from "vitest";
import { keeper, startAttempt } from "../../../test/http-worker/file-keeper.ts";
import { refusal } from "../../../test/http-worker/link-kit.ts";
import { fetchEarlier } from "./earlier-files.ts";
import { remoteDirectories } from "./remote-directories.ts";

async function open() {
  const { put } = keeper();
  const { attempt, link, dir } = await startAttempt(put);
  const { parts, sessionOf } = link;
  const directories = await remoteDirectories({ parts, sessionOf, dir, keepMs: 1e12, keepBytes: 1e9, log: () => {} });
  onTestFinished(() => directories.close());
  return { directories, attempt, dir };
}

it("removes the directory of a job that ended while the last attempt of it is let go", async () => {
  const { directories, attempt, dir } = await open();
  for (let round = 0; round < 30; round++) {
    await directories.begin("job_1", 1, false, attempt);
    await directories.finish?.(attempt);
    // As a worker does: both at once, and neither waits for the other.
    await Promise.all([directories.release?.(attempt), directories.tidy("job_1")]);
    expect(readdirSync(dir)).toEqual([]);
  }
});

it("keeps it for the next attempt if the job continues", async () => {
  const { directories, attempt, dir } = await open();
  await directories.begin("job_1", 1, false, attempt);
  await directories.finish?.(attempt);
  await directories.release?.(attempt);
  expect(readdirSync(dir)).toEqual(["job_1"]);
});

it("leaves no empty file where the attempt before left none", async () => {
  const { files, attempt, dir } = await startAttempt(() => refusal(404, "not_found"));
  await fetchEarlier(files, attempt, { attempt: 1, files: [], more: 0 }, dir);
  expect(readdirSync(dir)).toEqual(["artifacts"]);
});
