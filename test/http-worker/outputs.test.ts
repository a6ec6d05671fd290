import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { exec } from "../../src/core/builtin.ts";
import { startChild, until } from "../exec/kit.ts";
import { openWireBench, tempDir, type WireBench } from "./kit.ts";

const text = async (bench: WireBench, path: string) => (await bench.server.call("GET", path)).text;
const log = (bench: WireBench, id: string, query = "") => text(bench, `/v1/jobs/${id}/logs?stream=stdout${query}`);
const file = (bench: WireBench, id: string, attempt: number, name: string) =>
  bench.server.call("GET", `/v1/jobs/${id}/attempts/${attempt}/files/${name}`);
const sh = (bench: WireBench, command: string, options: object = {}) =>
  bench.submit("exec", { command, shell: true }, { retry: { maxAttempts: 1 }, ...options });
const QUICK = { retry: { maxAttempts: 2, backoff: { initial: "1ms", jitter: 0 } } };

/** What lies in the directories of a worker. */
const inHand = (dir: string) =>
  readdirSync(dir).flatMap((worker) => readdirSync(join(dir, worker)).filter((name) => name.startsWith("job_")));

describe("what a command leaves", () => {
  it("is on the server before its end is, and nothing of it stays here", async () => {
    const bench = await openWireBench();
    const dir = tempDir();
    await bench.work([exec], { dir });
    const id = await sh(
      bench,
      `echo out; echo err >&2; mkdir -p artifacts/a/b; printf 12345 > 'artifacts/a/b/x y.txt'; : > artifacts/empty
       ln -s /etc/passwd artifacts/link; echo '{"status": "completed", "output": 7}' > result.json; echo scratch > tmp.txt`,
    );
    const job = await bench.ended(id);
    expect(job).toMatchObject({ state: "succeeded" });
    expect(job.result).toMatchObject({
      exitCode: 0,
      output: 7,
      outputs: [
        { name: "a/b/x y.txt", size: 5 },
        { name: "empty", size: 0 },
      ],
    });
    expect(await log(bench, id)).toBe("out\n");
    expect(await text(bench, `/v1/jobs/${id}/logs?stream=stderr`)).toBe("err\n");
    expect((await file(bench, id, 1, "artifacts/a/b/x%20y.txt")).text).toBe("12345");
    expect((await file(bench, id, 1, "artifacts/empty")).status).toBe(200);
    expect((await file(bench, id, 1, "result.json")).text).toContain("completed");
    expect((await file(bench, id, 1, "artifacts/link")).status).toBe(404);
    const { attempts } = await bench.get(`/v1/jobs/${id}/outputs`);
    expect(attempts).toMatchObject([{ attempt: 1, files: [{ name: "a/b/x y.txt" }, { name: "empty" }], more: 0 }]);
    await until("its directory is gone", () => inHand(dir).length === 0);
  });

  it("can be read while it runs", async () => {
    const bench = await openWireBench();
    const go = join(tempDir(), "go");
    await bench.work([exec]);
    const id = await sh(bench, `echo first; until [ -e ${go} ]; do sleep 0.05; done; echo last`);
    await until("the first line is there", async () => (await log(bench, id)) === "first\n");
    expect(await bench.get(`/v1/jobs/${id}`)).toMatchObject({ state: "running" });
    writeFileSync(go, "");
    await bench.ended(id);
    expect(await log(bench, id)).toBe("first\nlast\n");
    expect(await log(bench, id, "&offset=6")).toBe("last\n");
  });

  it("is there for the next attempt, wherever that runs", async () => {
    const bench = await openWireBench();
    const first = await bench.work([exec]);
    const id = await bench.submit(
      "exec",
      {
        shell: true,
        command: `if [ $PERDURE_ATTEMPT = 1 ]; then echo one; mkdir artifacts/d; echo kept > artifacts/d/f; exit 3; fi
          cat $PERDURE_PREVIOUS_OUTPUT_DIR/stdout.log $PERDURE_PREVIOUS_OUTPUT_DIR/artifacts/d/f`,
      },
      { retry: { maxAttempts: 2, backoff: { initial: "1s", jitter: 0 } } },
    );
    await until("the first run is over", async () => (await bench.get(`/v1/jobs/${id}`)).failures === 1);
    await first.stop();
    await bench.work([exec]);
    expect(await bench.ended(id)).toMatchObject({ state: "succeeded", attempt: 2 });
    expect(await log(bench, id)).toBe("one\nkept\n");
  });

  it("gets there through a restart of the server, while it runs and at its end", async () => {
    const bench = await openWireBench();
    const dir = tempDir();
    const go = join(tempDir(), "go");
    await bench.work([exec], { dir });
    const id = await sh(
      bench,
      `echo first; until [ -e ${go} ]; do sleep 0.05; done; seq 1 100000; echo x > artifacts/x`,
    );
    await until("the first line is there", async () => (await log(bench, id)) === "first\n");
    bench.wire.cut();
    writeFileSync(go, "");
    const local = () => inHand(dir).map((job) => join(dir, readdirSync(dir)[0] as string, job, "attempt_1"))[0] ?? "";
    await until("it has ended", () => existsSync(join(local(), "artifacts/x")));
    await bench.restart();
    expect(await bench.ended(id)).toMatchObject({ state: "succeeded", attempt: 1 });
    const whole = `first\n${Array.from({ length: 100_000 }, (_, n) => `${n + 1}\n`).join("")}`;
    expect((await log(bench, id)) === whole).toBe(true);
    expect((await file(bench, id, 1, "artifacts/x")).text).toBe("x\n");
  });

  it("and is over the server's limit is not kept, and said so; the rest is", async () => {
    const bench = await openWireBench({ outputLimit: 200_000 });
    await bench.work([exec]);
    const id = await sh(
      bench,
      "echo out; head -c 300000 /dev/zero > artifacts/big; for i in 1 2 3 4 5 6; do echo $i > artifacts/s$i; done",
    );
    expect(await bench.ended(id)).toMatchObject({ state: "succeeded" });
    expect(await log(bench, id)).toBe("out\n");
    for (const n of [1, 2, 3, 4, 5, 6]) expect((await file(bench, id, 1, `artifacts/s${n}`)).text).toBe(`${n}\n`);
    expect((await file(bench, id, 1, "artifacts/big")).text).toBe(""); // and not the half of it
    expect(await text(bench, `/v1/jobs/${id}/logs?stream=log`)).toContain("artifacts/big was not kept");
  });

  it("and ran into its timeout is kept too", async () => {
    const bench = await openWireBench();
    await bench.work([exec]);
    const id = await sh(bench, "echo before; echo f > artifacts/f; sleep 60", { timeout: "4s" });
    expect(await bench.ended(id)).toMatchObject({ state: "failed", reason: "timeout" });
    expect(await log(bench, id)).toBe("before\n");
    expect((await file(bench, id, 1, "artifacts/f")).text).toBe("f\n");
  });

  it("had been sent when its worker was killed stays, and the next attempt finds it", async () => {
    const bench = await openWireBench();
    const dir = tempDir();
    const child = startChild("../http-worker/worker.ts", [bench.wire.url, bench.server.admin, dir]);
    await child.line("working");
    const id = await bench.submit(
      "exec",
      {
        shell: true,
        command: `if [ $PERDURE_ATTEMPT = 1 ]; then echo of the first; sleep 600; fi
          cat $PERDURE_PREVIOUS_OUTPUT_DIR/stdout.log`,
      },
      QUICK,
    );
    await until("its line is there", async () => (await log(bench, id)) === "of the first\n");
    child.process.kill("SIGKILL");
    await child.ended;
    const left = readdirSync(dir);
    expect(left).toHaveLength(1);
    await bench.work([exec], { dir });
    expect(readdirSync(dir)).not.toContain(left[0]); // what the dead worker left is gone
    expect(await bench.ended(id)).toMatchObject({ state: "succeeded", attempt: 2, losses: 1 });
    expect(await log(bench, id)).toBe("of the first\n");
    expect(await log(bench, id, "&attempt=1")).toBe("of the first\n");
  });
});

describe("the directory of a worker", () => {
  it("is for its user alone, and goes with it; others are left alone", async () => {
    const bench = await openWireBench();
    const dir = tempDir();
    mkdirSync(join(dir, `worker-${process.ppid}-1-1`)); // of a process that is alive
    mkdirSync(join(dir, "something-else"));
    const worker = await bench.work([exec], { dir });
    const own = readdirSync(dir).find((name) => name.startsWith(`worker-${process.pid}-`)) as string;
    expect(readFileSync(join(dir, own, ".process"), "utf8")).not.toBe("");
    await worker.stop();
    expect(readdirSync(dir).sort()).toEqual(["something-else", `worker-${process.ppid}-1-1`]);
  });
});
