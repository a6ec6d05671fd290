import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { exec } from "../../src/core/input/builtin.ts";
import { hasEnded } from "../../src/worker/process-proof.ts";
import { startChild, until } from "../exec/kit.ts";
import { IS_FULL } from "../tier.ts";
import { openWireBench, tempDir, type WireBench } from "./kit.ts";

const text = async (bench: WireBench, path: string) => (await bench.server.call("GET", path)).text;
const log = (bench: WireBench, id: string, query = "") => text(bench, `/v1/jobs/${id}/logs?stream=stdout${query}`);
const file = (bench: WireBench, id: string, attempt: number, name: string) =>
  bench.server.call("GET", `/v1/jobs/${id}/attempts/${attempt}/files/${name}`);
const sh = (bench: WireBench, command: string, options: object = {}) =>
  bench.submit("exec", { command, shell: true }, { retry: { maxAttempts: 1 }, ...options });
const QUICK = { retry: { maxAttempts: 2, backoff: { initial: "1ms", jitter: 0 } } };

/** What lies in the directories of a worker. */
const inHand = (dir: string) => readdirSync(dir).filter((name) => name.startsWith("job_"));

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
    await until("its directory is removed", () => inHand(dir).length === 0);
  });

  it("is in its result as text, if the job asks for it", async () => {
    const bench = await openWireBench();
    await bench.work([exec]);
    const id = await bench.submit("exec", { argv: ["seq", "1", "50000"], resultStdout: true });
    const { result } = await bench.ended(id);
    const all = Array.from({ length: 50_000 }, (_, i) => `${i + 1}\n`).join("");
    expect(result).toMatchObject({ stdout: { bytes: all.length, text: all.slice(0, 65_536), textCut: true } });
  });

  it("can be read while it runs", async () => {
    const bench = await openWireBench();
    const go = join(tempDir(), "go");
    await bench.work([exec]);
    const id = await sh(bench, `echo first; until [ -e ${go} ]; do sleep 0.05; done; echo last`);
    await until("the first line exists", async () => (await log(bench, id)) === "first\n");
    expect(await bench.get(`/v1/jobs/${id}`)).toMatchObject({ state: "running" });
    writeFileSync(go, "");
    await bench.ended(id);
    expect(await log(bench, id)).toBe("first\nlast\n");
    expect(await log(bench, id, "&offset=6")).toBe("last\n");
  });

  it.each([
    ["the same host, scratch files too", true, "one\nkept\nscratch\n"],
    ["another host", false, "one\nkept\nno scratch\n"],
  ])("is available to the next attempt, on %s", async (_, isSame, expected) => {
    const bench = await openWireBench();
    const dir = tempDir();
    const first = await bench.work([exec], { dir });
    const id = await bench.submit(
      "exec",
      {
        shell: true,
        command: `if [ $PERDURE_ATTEMPT = 1 ]; then
            echo one; mkdir artifacts/d; echo kept > artifacts/d/f; echo scratch > tmp.txt; exit 3
          fi
          cd $PERDURE_PREVIOUS_OUTPUT_DIR; cat stdout.log artifacts/d/f; cat tmp.txt 2>/dev/null || echo no scratch`,
      },
      { retry: { maxAttempts: 2, backoff: { initial: "1h", jitter: 0 } } },
    );
    await until("the first attempt is over", async () => (await bench.get(`/v1/jobs/${id}`)).failures === 1);
    await first.stop();
    const next = isSame ? dir : tempDir();
    await bench.work([exec], { dir: next });
    await bench.server.call("POST", `/v1/jobs/${id}/retry`);
    expect(await bench.ended(id)).toMatchObject({ state: "succeeded", attempt: 2 });
    expect(await log(bench, id)).toBe(expected);
    await until("all of it is removed", () => inHand(next).length === 0);
  });

  it("is sent while it runs: what has stopped changing, and in the end the right bytes of what was written again", async () => {
    const bench = await openWireBench();
    const go = join(tempDir(), "go");
    await bench.work([exec]);
    const id = await sh(
      bench,
      `cd artifacts; echo old > renamed; echo 'old, and longer' > rewritten; echo gone > removed; seq 3 > grown
       until [ -e ${go} ]; do sleep 0.05; done
       echo new > tmp; mv tmp renamed; echo new > rewritten; rm removed; seq 4 5 >> grown`,
    );
    const is = async (name: string, expected: string) =>
      (await file(bench, id, 1, `artifacts/${name}`)).text === expected;
    await until("all exist", async () => (await is("renamed", "old\n")) && (await is("grown", "1\n2\n3\n")));
    expect(await bench.get(`/v1/jobs/${id}`)).toMatchObject({ state: "running" });
    writeFileSync(go, "");
    expect(await bench.ended(id)).toMatchObject({ state: "succeeded", attempt: 1 });
    const { attempts } = await bench.get(`/v1/jobs/${id}/outputs`);
    const named = (attempts[0].files as { name: string }[]).map(({ name }) => name);
    expect(named).toEqual(["grown", "renamed", "rewritten"]);
    for (const [name, expected] of [
      ["renamed", "new\n"],
      ["rewritten", "new\n"],
      ["grown", "1\n2\n3\n4\n5\n"],
    ] as const) {
      expect((await file(bench, id, 1, `artifacts/${name}`)).text).toBe(expected);
    }
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
    await until("the first line exists", async () => (await log(bench, id)) === "first\n");
    bench.wire.cut();
    writeFileSync(go, "");
    const local = () => inHand(dir).map((job) => join(dir, job, "attempt_1"))[0] ?? "";
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
    expect((await file(bench, id, 1, "artifacts/big")).status).toBe(404); // and not the half of it
    expect(await text(bench, `/v1/jobs/${id}/logs?stream=log`)).toContain("artifacts/big was not kept");
  });

  it.runIf(IS_FULL)("and ran into its timeout is kept too", async () => {
    const bench = await openWireBench();
    await bench.work([exec]);
    const id = await sh(bench, "echo before; echo f > artifacts/f; sleep 60", { timeout: "4s" });
    expect(await bench.ended(id)).toMatchObject({ state: "failed", reason: "timeout" });
    expect(await log(bench, id)).toBe("before\n");
    expect((await file(bench, id, 1, "artifacts/f")).text).toBe("f\n");
  });

  it("had been sent when its worker was killed stays: for the next attempt, with scratch files on its host, or as its verdict", async () => {
    const bench = await openWireBench({ isGone: hasEnded });
    const dir = tempDir();
    const child = startChild("../http-worker/worker.ts", [bench.wire.url, bench.server.admin, dir]);
    await child.line("working");
    const id = await bench.submit(
      "exec",
      {
        shell: true,
        command: `if [ $PERDURE_ATTEMPT = 1 ]; then
            echo of the first; echo artifact > artifacts/f; echo scratch > tmp.txt; sleep 600
          fi
          cd $PERDURE_PREVIOUS_OUTPUT_DIR; cat stdout.log artifacts/f tmp.txt`,
      },
      QUICK,
    );
    const judged = await bench.submit(
      "exec",
      {
        shell: true,
        command: `echo done > artifacts/d; printf '{"status": "comp' > result.json; sleep 1.2
          echo '{"status": "completed", "output": 7}' > tmp; mv tmp result.json; sleep 600`,
      },
      QUICK,
    );
    await until("its files exist", async () => (await file(bench, id, 1, "artifacts/f")).text === "artifact\n");
    await until("the verdict exists", async () => (await file(bench, judged, 1, "result.json")).status === 200);
    await until("its file exists", async () => (await file(bench, judged, 1, "artifacts/d")).status === 200);
    child.process.kill("SIGKILL");
    await child.ended;
    expect(inHand(dir).sort()).toEqual([id, judged].sort());
    await bench.work([exec], { dir });
    expect(await bench.ended(id)).toMatchObject({ state: "succeeded", attempt: 2, losses: 1 });
    expect(await log(bench, id)).toBe("of the first\nartifact\nscratch\n");
    expect(await log(bench, id, "&attempt=1")).toBe("of the first\n");
    expect((await file(bench, id, 1, "artifacts/f")).text).toBe("artifact\n");
    const won = await bench.ended(judged);
    expect(won).toMatchObject({ state: "succeeded", attempt: 1, losses: 0 });
    expect(won.result).toMatchObject({ exitCode: null, output: 7, outputs: [{ name: "d", size: 5 }] });
    await until("all of it is removed", () => !inHand(dir).includes(id));
  });
});
