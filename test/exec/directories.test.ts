/** Directories of attempts: what lies there, for whom, for how long. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { exec } from "../../src/core/input/builtin.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { openBench, QUICK, tempDir, until } from "./kit.ts";

const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);
const retry = { maxAttempts: 3, ...QUICK };
const ALL = ["artifacts", "result.json", "stderr.log", "stdout.log"];

describe("an attempt's directory", () => {
  it("is laid out as promised, for the owner alone", async () => {
    const bench = await openBench();
    const script = `echo '{"status":"completed"}' > "$PERDURE_RESULT_FILE"; echo 1 > artifacts/a; pwd`;
    const { dir, stdout, job } = await bench.sh(script);
    expect(dir).toBe(join(bench.dir, "artifacts", job.id, "attempt_1"));
    expect(stdout).toBe(`${dir}\n`);
    expect(readdirSync(dir).sort()).toEqual(ALL);
    expect([mode(dir), mode(join(dir, "artifacts"))]).toEqual(["700", "700"]); // no access for others
    for (const name of ["stdout.log", "stderr.log"]) expect(mode(join(dir, name))).toBe("600");
    expect(mode(join(bench.dir, "artifacts"))).toBe("700");
    expect(mode(join(bench.dir, "artifacts", job.id))).toBe("700");
  });

  it("has the requested umask, or that of the worker", async () => {
    const bench = await openBench();
    const asked = await bench.sh("umask; echo > artifacts/a", { umask: 0o027 });
    expect(asked.stdout).toBe("0027\n");
    expect(mode(join(asked.dir, "artifacts/a"))).toBe("640");
    const ours = process.umask().toString(8).padStart(4, "0");
    const there = tempDir();
    const elsewhere = await bench.sh("umask; pwd; touch here", { cwd: there });
    expect(elsewhere.stdout).toBe(`${ours}\n${there}\n`);
    expect(existsSync(join(there, "here"))).toBe(true); // no scratch of ours: it stays
    expect((await bench.sh("umask")).stdout).toBe(`${ours}\n`);
    expect(process.umask().toString(8).padStart(4, "0")).toBe(ours);
  });

  it("stays unchanged when the next attempt begins, which can resume from it", async () => {
    const bench = await openBench();
    const script = `
      if [ -n "$PERDURE_PREVIOUS_OUTPUT_DIR" ]; then cp "$PERDURE_PREVIOUS_OUTPUT_DIR/checkpoint" .; else : > checkpoint; fi
      echo "$PERDURE_ATTEMPT" | tee -a checkpoint; [ "$PERDURE_ATTEMPT" = 3 ] || exit 1; cp checkpoint artifacts`;
    const { job, dir } = await bench.sh(script, {}, { retry });
    expect(job).toMatchObject({ state: "succeeded", attempt: 3 });
    expect(readFileSync(join(dir, "artifacts/checkpoint"), "utf8")).toBe("1\n2\n3\n");
    for (const n of [1, 2, 3]) expect(readFileSync(join(bench.dirOf(job.id, n), "stdout.log"), "utf8")).toBe(`${n}\n`);
  });

  it("is never overwritten, also when the job is redriven", async () => {
    const bench = await openBench();
    const script = 'echo "$PERDURE_ATTEMPT $PERDURE_PREVIOUS_OUTPUT_DIR"; exit 1';
    const job = await bench.submit({ command: script, shell: true }, { retry: { maxAttempts: 2, ...QUICK } });
    await bench.ended(job);
    await bench.perdure.redrive(job.id);
    await until("it has failed again", async () => {
      const { chapter, state } = await job.get();
      return chapter === 2 && state === "failed";
    });
    const said = [1, 2, 3, 4].map((n) => readFileSync(join(bench.dirOf(job.id, n), "stdout.log"), "utf8"));
    const dirs = [0, 1, 2, 3].map((n) => (n === 0 ? "" : bench.dirOf(job.id, n)));
    expect(said).toEqual(dirs.map((dir, i) => `${i + 1} ${dir}\n`));
    expect((await bench.perdure.outputs(job.id)).attempts).toEqual([1, 2, 3, 4]);
  });
});

describe("scratch files", () => {
  const script =
    'mkdir -p node_modules/x; touch node_modules/x/y scratch .hidden; echo 1 > artifacts/kept; exit "$CODE"';

  it.each(["0", "1"])("go when the job ends with exit code %s, those of all attempts", async (code) => {
    const bench = await openBench();
    const { job } = await bench.sh(script, { env: { CODE: code } }, { retry: { maxAttempts: 2, ...QUICK } });
    const dirs = (await bench.perdure.outputs(job.id)).attempts.map((n) => bench.dirOf(job.id, n));
    expect(dirs).toHaveLength(code === "0" ? 1 : 2);
    const left = ["artifacts", "stderr.log", "stdout.log"];
    await until("they are gone", () => dirs.every((dir) => readdirSync(dir).sort().join() === left.join()));
    for (const dir of dirs) expect(readdirSync(join(dir, "artifacts"))).toEqual(["kept"]);
  });

  it("stay with keep", async () => {
    const bench = await openBench();
    const { dir } = await bench.sh(script, { env: { CODE: "0" }, keep: true });
    await bench.perdure.close();
    expect(readdirSync(dir)).toContain("node_modules");
    expect(readdirSync(dir)).toContain("scratch");
  });

  it("go when a waiting job is cancelled", async () => {
    const bench = await openBench();
    const job = await bench.submit(
      { command: script, shell: true, env: { CODE: "1" } },
      { retry: { maxAttempts: 2, backoff: { initial: "1h", jitter: 0 } } },
    );
    await until("it waits for its second run", async () => (await job.get()).failures === 1);
    expect(existsSync(join(bench.dirOf(job.id, 1), "scratch"))).toBe(true); // the next attempt may need it
    await job.cancel();
    expect(existsSync(join(bench.dirOf(job.id, 1), "scratch"))).toBe(false);
  });
});

describe("outputs", () => {
  it("are those of the winning attempt, with name, size, kind and hash", async () => {
    const bench = await openBench();
    const script = 'echo "$PERDURE_ATTEMPT" > artifacts/n.json; [ "$PERDURE_ATTEMPT" = 2 ]';
    const { result, job } = await bench.sh(script, {}, { retry });
    const sha256 = createHash("sha256").update("2\n").digest("hex");
    expect(result.outputs).toEqual([{ name: "n.json", size: 2, mime: "application/json", sha256 }]);
    const outputs = await bench.perdure.outputs(job.id);
    const text = async (attempt: number) => {
      let all = "";
      for await (const chunk of (await outputs.read(attempt, "artifacts/n.json")) ?? []) all += String(chunk);
      return all;
    };
    expect([await text(1), await text(2)]).toEqual(["1\n", "2\n"]);
    expect(await outputs.read(3, "artifacts/n.json")).toBe(null);
  });

  it("go with the rows of their job, and not those of others", async () => {
    const bench = await openBench({ open: { retention: { succeeded: "1ms", failed: false } } });
    const gone = await bench.sh("exit 0");
    const kept = await bench.sh("exit 1");
    await until("it is pruned", async () => (await bench.perdure.prune()) === 1);
    expect(existsSync(join(bench.dir, "artifacts", gone.job.id))).toBe(false);
    expect(existsSync(kept.dir)).toBe(true);
  });

  it("are in the configured directory", async () => {
    const dir = tempDir();
    const artifacts = join(dir, "elsewhere");
    mkdirSync(artifacts);
    writeFileSync(join(artifacts, "mine"), "");
    const bench = await openBench({ open: { artifacts } });
    const { job } = await bench.sh("exit 0");
    expect(readdirSync(artifacts).sort()).toEqual([job.id, "mine"]);
  });

  it("of an in-memory database is removed with it", async () => {
    const perdure = await Perdure.open(":memory:");
    await perdure.work([exec]);
    const job = await perdure.submit(exec, { argv: ["pwd"] });
    await job.result();
    const chunks: Uint8Array[] = [];
    for await (const chunk of (await (await perdure.outputs(job.id)).read(1, "stdout.log")) ?? []) chunks.push(chunk);
    const dir = Buffer.concat(chunks).toString().trim();
    expect(existsSync(dir)).toBe(true);
    await perdure.close();
    expect(existsSync(join(dir, "../.."))).toBe(false);
  });
});
