/** F30: what `perdure run` reports as stored was flushed before: each file, and the folders on its path. strace shows
 *  the order; `npm run test:power` cuts the power. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { newPlace, PROGRAM } from "../cli/program.ts";
import { IS_FULL } from "../tier.ts";
import { TEST_MS } from "./kit.ts";
import { notTested, straceProblem } from "./strace.ts";

const SCRIPT =
  'cd "$PERDURE_OUTPUT_DIR"; echo out; mkdir artifacts/deep; echo a > artifacts/deep/a; echo "{}" > result.json';

/** One attempt under strace; returns the flushed paths in order. */
function runUnder(...options: string[]) {
  const { cwd, data } = newPlace();
  const trace = join(cwd, "trace");
  const strace = [
    "-f",
    "--seccomp-bpf",
    "-qq",
    "-y",
    "-o",
    trace,
    "-e",
    "trace=fsync,fdatasync",
    ...options,
    process.execPath,
    PROGRAM,
  ];
  const args = [...strace, "run", "--data", data, "--json", "--max-attempts", "1", "--", "sh", "-c", SCRIPT];
  const { status, stdout, stderr } = spawnSync("strace", args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  const calls = readFileSync(trace, "utf8").matchAll(/ (fsync|fdatasync)\(\d+<([^>]+)>/g);
  const flushed = [...calls].map(([, call, path = ""]) => ({
    call,
    path: path.replace(data, "").replace(/job_\w+/, "JOB"),
  }));
  return { status, told: stdout, stderr, flushed };
}

const why = straceProblem();
if (why !== null) notTested("test/crash/flush.test.ts", why);
else {
  describe("the files of an attempt", () => {
    let hasOwnCall = false;

    it(
      "are flushed, with the folders on their paths, before its end is stored",
      () => {
        const { status, flushed, stderr } = runUnder();
        expect([status, stderr.includes("succeeded")]).toEqual([0, true]);
        const settled = flushed.map(({ path }) => path).lastIndexOf("/perdure.db-wal");
        const before = flushed.slice(0, settled).map(({ path }) => path);
        const dir = "/artifacts/JOB/attempt_1";
        const files = ["stdout.log", "result.json", "artifacts/deep/a", "artifacts/deep", "artifacts"];
        const folders = ["", "/artifacts", "/artifacts/JOB", dir]; // "": the one of the database
        expect(before).toEqual(expect.arrayContaining([...folders, ...files.map((name) => `${dir}/${name}`)]));
        expect(before).not.toContain(`${dir}/stderr.log`); // it is empty
        hasOwnCall = flushed.every(({ call, path }) => call === "fsync" || path.startsWith(dir));
      },
      TEST_MS,
    );

    it.runIf(IS_FULL)(
      "sent by a worker must be sent again if their flush failed: a second flush would succeed without the bytes",
      () => {
        const { cwd } = newPlace();
        const blobs = new URL("../../src/store/directory-blobs.ts", import.meta.url);
        const script = `
          import { Readable } from "node:stream";
          import { directoryBlobs } from "${blobs}";
          const { write } = directoryBlobs("${cwd}");
          const send = () => write("job_01m7qc4xw5eg2ap6tksm8d4yh7", 1, "stdout.log", 0, Readable.from([Buffer.from("abc")]), { length: 3 });
          console.log(await send().catch((error) => error.code), JSON.stringify(await send()));`;
        const strace = ["-f", "--seccomp-bpf", "-qq", "-y", "-o", join(cwd, "trace"), "-e", "trace=fdatasync,pwrite64"];
        const fault = ["-e", "inject=fdatasync:error=EIO:when=1"];
        const node = [process.execPath, "--import", "tsx", "--input-type=module", "-e", script];
        // One thread: strace counts per thread.
        const env = { ...process.env, UV_THREADPOOL_SIZE: "1" };
        const { stdout, stderr } = spawnSync("strace", [...strace, ...fault, ...node], { encoding: "utf8", env });
        expect([stderr, stdout]).toEqual(["", 'EIO {"size":3}\n']);
        const calls = readFileSync(join(cwd, "trace"), "utf8").matchAll(/(fdatasync|pwrite64)\(\d+<[^>]+stdout.log>/g);
        expect([...calls].map(([, call]) => call)).toEqual(["pwrite64", "fdatasync", "pwrite64", "fdatasync"]);
      },
      TEST_MS,
    );

    it.runIf(IS_FULL)(
      "are not reported as stored if the disk fails",
      ({ skip }) => {
        if (!hasOwnCall) skip("SQLite flushes by the same call here, and would fail before");
        const { status, told, stderr } = runUnder("-e", "inject=fdatasync:error=EIO");
        expect(stderr).toMatch(/output files could not be written to disk \(.*EIO/);
        expect([status, JSON.parse(told.slice(told.indexOf("{")))]).toMatchObject([
          1,
          { state: "failed", outputs: [] },
        ]);
      },
      TEST_MS,
    );
  });
}
