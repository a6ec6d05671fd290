/** Workers that leave without a word, and workers within commands. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { openDatabase } from "../../src/store/sqlite/driver.ts";
import { IS_FULL } from "../tier.ts";
import { alive, allDead, needle, openBench, startChild, until } from "./kit.ts";

const WORKER = fileURLToPath(new URL("worker.ts", import.meta.url));
const STUBBORN = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 1000; :' &) \n while :; do sleep 0.1; done";

describe("a worker that leaves", () => {
  it.runIf(IS_FULL)("with process.exit, in the middle of everything, takes its commands with it", async () => {
    const bench = await openBench();
    await bench.worker.stop();
    const child = startChild("worker.ts", [JSON.stringify({ url: join(bench.dir, "perdure.db") })]);
    await child.line("ready");
    const mark = needle();
    await bench.submit({ command: STUBBORN, shell: true, env: { MARK: mark } });
    await until("it runs", () => alive(mark).length >= 3);
    child.process.stdin?.end(); // it exits then
    await child.ended;
    await allDead(mark);
  });

  it.runIf(IS_FULL)("and what its command had used so far is counted", async () => {
    const bench = await openBench({ open: { lease: "1s" } });
    await bench.worker.stop();
    const child = startChild("worker.ts", [JSON.stringify({ url: join(bench.dir, "perdure.db"), lease: "1s" })]);
    await child.line("ready");
    const command = `printf '{"tokens_in":7}' > "$PERDURE_USAGE_FILE"; sleep 1000`;
    const job = await bench.submit({ command, shell: true }, { retry: { atMostOnce: true } });
    const db = await openDatabase(join(bench.dir, "perdure.db"));
    const told = db.prepare("select live_usage from job where live_usage is not null");
    await until("it was sent with a renewal", () => told.get() !== undefined);
    db.close();
    child.process.kill("SIGKILL");
    const { job: info, last } = await bench.ended(job);
    expect([info.state, last.outcome]).toEqual(["failed", "lost"]);
    expect(info.usage).toMatchObject({ tokensIn: 7 });
  });
});

describe("a worker within a command", () => {
  it("is ended with its own commands when the outer one is cancelled", async () => {
    const bench = await openBench();
    const inner = await openBench();
    await inner.worker.stop();
    const mark = needle();
    const settings = JSON.stringify({ url: join(inner.dir, "perdure.db") });
    const argv = [process.execPath, "--import", "tsx", WORKER, settings];
    const outer = await bench.submit({
      command: `sleep 1000 | ${argv.map((each) => `'${each}'`).join(" ")}`,
      ...{ shell: true, cwd: fileURLToPath(new URL("../..", import.meta.url)), grace: "100ms" },
    });
    await inner.submit({ command: STUBBORN, shell: true, env: { MARK: mark } });
    await until("the inner command runs", () => alive(mark).length >= 3);
    await outer.cancel();
    await bench.ended(outer);
    await allDead(mark);
  });
});
