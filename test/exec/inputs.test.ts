/** Files that a job brings along: where a command finds them, for whom, for how long. */
import { createHash, randomBytes } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { opalExec } from "../../src/dialects/opal/exec.ts";
import { opalKey } from "../../src/dialects/opal/format.ts";
import { opalJob } from "../../src/dialects/opal/job.ts";
import { QUICK, sharedBench, tempDir, until } from "./kit.ts";

const base64 = (text: string) => Buffer.from(text).toString("base64");

describe("input files", () => {
  it("lie in inputs/, byte for byte, for the owner alone, before the program starts", async () => {
    const bench = await sharedBench();
    const bytes = randomBytes(300_000);
    const files = { "a b é": bytes.toString("base64"), empty: "", "-n": base64("dash\n") };
    const script =
      'cd "$PERDURE_OUTPUT_DIR/inputs" && sha256sum < "a b é" && cat ./-n && ls -A | wc -l && stat -c %a . empty "a b é"';
    const { stdout, job } = await bench.sh(script, { files });
    const hash = createHash("sha256").update(bytes).digest("hex");
    expect(stdout.replaceAll(" ", "")).toBe(`${hash}-\ndash\n3\n700\n600\n600\n`);
    expect(job.state).toBe("succeeded");
  });

  it("are found from another directory, and by a program that is one of them", async () => {
    const bench = await sharedBench();
    const files = { "run.sh": base64('echo "from $(cat "$PERDURE_OUTPUT_DIR/inputs/data")"') };
    const argv = ["/bin/sh", "-c", '. "$PERDURE_OUTPUT_DIR/inputs/run.sh"'];
    const { stdout } = await bench.run({ argv, cwd: tempDir(), files: { ...files, data: base64("here") } });
    expect(stdout).toBe("from here\n");
    const relative = await bench.run({ argv: ["/bin/sh", "inputs/run.sh"], files: { ...files, data: "" } });
    expect(relative.stdout).toBe("from \n");
  });

  it("are new for each attempt, whatever the one before did to its own, and go when the job has ended", async () => {
    const bench = await sharedBench();
    const script = 'cat inputs/n; rm -r inputs; ln -s /nowhere inputs; [ "$PERDURE_ATTEMPT" = 3 ]';
    const retry = { maxAttempts: 3, ...QUICK };
    const { job, stdout } = await bench.sh(script, { files: { n: base64("as sent\n") } }, { retry });
    expect(job).toMatchObject({ state: "succeeded", attempt: 3 });
    expect(stdout).toBe("as sent\n");
    const dirs = [1, 2, 3].map((n) => bench.dirOf(job.id, n));
    await until("they are gone", () => dirs.every((dir) => !readdirSync(dir).includes("inputs")));
  });

  it("are not listed as outputs", async () => {
    const bench = await sharedBench();
    const { result, job, dir } = await bench.sh("echo 1 > artifacts/a", { files: { b: "QQ==" } });
    expect(result.outputs.map(({ name }) => name)).toEqual(["a"]);
    expect(await (await bench.perdure.outputs(job.id)).read(1, "inputs/b")).toBe(null);
    await until("they are gone", () => !existsSync(join(dir, "inputs")));
  });

  it("create no directory if there are none", async () => {
    const bench = await sharedBench();
    expect((await bench.sh("ls -A")).stdout).not.toContain("inputs");
    expect((await bench.sh("ls -A", { files: {} })).stdout).not.toContain("inputs");
  });

  it("are refused at submit when a name or the content cannot be", async () => {
    const bench = await sharedBench();
    for (const files of [{ "../a": "QQ==" }, { "a/b": "QQ==" }, { a: "Q" }, { a: "?" }]) {
      await expect(bench.submit({ argv: ["true"], files })).rejects.toMatchObject({ code: "invalid_config" });
    }
    const tooMuch = { argv: ["true"], files: { a: Buffer.alloc(1_000_000).toString("base64") } };
    await expect(bench.submit(tooMuch)).rejects.toMatchObject({ code: "invalid_payload" });
  });
});

describe("an engine of OPAL", () => {
  it("finds prompt, metadata and file under their names", async () => {
    const bench = await sharedBench();
    const script =
      'echo "$OPAL_JOB_ID|$OPAL_METADATA"; echo "$OPAL_PROMPT"; cat "$OPAL_PROMPT_FILE"; echo; cat "$OPAL_INPUT_FILE"';
    const input = opalExec({
      ...{ engine: ["/bin/sh", "-c", script], prompt: 'say "$HOME"\nüber', metadata: { n: 1 }, opalId: "job_1" },
      inputFile: { name: "../../Q1 report.txt", base64: base64("the file") },
    });
    const { stdout } = await bench.run(input);
    expect(stdout).toBe('job_1|{"n":1}\nsay "$HOME"\nüber\nsay "$HOME"\nüber\nthe file');
    const long = opalExec({
      engine: ["/bin/sh", "-c", 'env | grep -c ^OPAL_PROMPT=; wc -c < "$OPAL_PROMPT_FILE"'],
      prompt: "x".repeat(200_000),
      opalId: "job_2",
    });
    expect((await bench.run(long)).stdout.replaceAll(" ", "")).toBe("0\n200000\n");
  });

  it("leaves outputs whose links name its attempt", async () => {
    const bench = await sharedBench();
    const engine = ["/bin/sh", "-c", 'mkdir artifacts/d && cp "$OPAL_PROMPT_FILE" "artifacts/d/the answer.txt"'];
    const input = opalExec({ engine, prompt: "hi", opalId: "job_1" });
    const { job, attempts } = await bench.run(input, { key: opalKey("job_1"), tags: ["opal"] });
    const shown = opalJob(job, attempts, () => "worker-1");
    const sha256 = createHash("sha256").update("hi").digest("hex");
    const href = "/api/artifacts/job_1/attempt_1/d/the%20answer.txt";
    expect(shown).toMatchObject({ id: "job_1", status: "succeeded", error: null, worker_id: "worker-1" });
    expect(shown.outputs).toEqual([{ name: "d/the answer.txt", href, mime: "text/plain", size: 2, sha256 }]);
    expect(shown.run_provenance).toEqual({ engine: "/bin/sh", attempt: 1, exit_code: 0, worker_id: "worker-1" });
  });
});
