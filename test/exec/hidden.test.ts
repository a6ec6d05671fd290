/** Processes that hide as well as they can: without a mark, in a session of their own. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { IS_FULL } from "../tier.ts";
import { allDead, exists, needle, sharedBench } from "./kit.ts";

it("one that only its parent led to is remembered when the parent exits first", async () => {
  const bench = await sharedBench();
  const mark = needle();
  const hidden = `env -i setsid /bin/sh -c 'trap "" TERM; : > up; while :; do /bin/sleep 1; done' ${mark}`;
  const job = await bench.submit({ command: `${hidden} & wait`, shell: true, grace: "200ms" });
  await exists(join(bench.dirOf(job.id, 1), "up"));
  await job.cancel();
  expect((await bench.ended(job)).job.state).toBe("cancelled");
  await allDead(mark);
});

it.runIf(IS_FULL)("one that keeps the pipe, and writes for ever, does not keep the job", async () => {
  const bench = await sharedBench();
  // It ends when its output is not read any more.
  const hidden = "env -i setsid /bin/sh -c 'while echo x; do /bin/sleep 0.2; done'";
  // Orphaned before the first scan: it cannot be found.
  const { job, result } = await bench.sh(`(${hidden} &) & exit 0`);
  expect(job.state).toBe("succeeded");
  expect(result.exitCode).toBe(0);
});

it("a command does not fail for the names of its files, nor for much output", async () => {
  const bench = await sharedBench();
  const names = `
    const { mkdirSync, writeFileSync } = require("node:fs");
    let dir = "artifacts/";
    for (let i = 0; i < 5; i++) mkdirSync((dir += "漢".repeat(80) + "/"));
    for (let i = 0; i < 1000; i++) writeFileSync(dir + i, "");`;
  const many = await bench.run({ argv: [process.execPath, "-e", names] });
  expect(many.job.state).toBe("succeeded");
  expect(many.result).toMatchObject({ exitCode: 0, outputs: [], moreOutputs: 1_000 });
  // 750 kB in the file, and three times as much when it is written again.
  const grows = `require("node:fs").writeFileSync("result.json", "[" + Array(150000).fill("1e20").join(",") + "]")`;
  const { job, last } = await bench.run({ argv: [process.execPath, "-e", grows] });
  expect(job.state).toBe("failed");
  expect(last.failure).toMatchObject({ kind: "result", message: expect.stringContaining("result.json is over") });
});
