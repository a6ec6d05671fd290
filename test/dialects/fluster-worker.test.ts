/** What fluster promises to the commands themselves: environment, directories, ports, and a checkpoint to
 *  resume from. Run by a real worker. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Entrypoint, type FlusterSubmit, fluster } from "../../src/dialects/fluster/client.ts";
import { flusterDialect } from "../../src/dialects/fluster/dialect.ts";
import type { FlusterStatus } from "../../src/dialects/fluster/view.ts";
import { readYaml } from "../../src/yaml/read.ts";
import { openBench, tempDir } from "../exec/kit.ts";
import { ROOT } from "../fences.ts";
import { readContext } from "./kit.ts";

const WAIT = { timeout: 25 };

async function open() {
  const bench = await openBench({ work: { name: "worker-1" } });
  const client = fluster(bench.perdure);
  /** Runs a script to its end; `lines` contains the output of each attempt. */
  async function run(shell: string, more: Partial<FlusterSubmit> = {}) {
    return end(await start(shell, more));
  }
  async function start(shell: string, more: Partial<FlusterSubmit> = {}) {
    const retry = { max_retries_failure: 2, initial_delay: 0.001 };
    return client.submit({ entrypoint: { shell }, name: "script", retry, ...more });
  }
  async function end(id: string) {
    const status = await client.wait(id, WAIT);
    const lines = status.attempts.map(({ attempt_id }) => {
      return readFileSync(join(bench.dirOf(id, attempt_id + 1), "stdout.log"), "utf8")
        .trim()
        .split("\n");
    });
    return { id, status, lines };
  }
  return { ...bench, client, run, start, end };
}

/** A script whose first attempt waits for a child, whose second fails, and whose third succeeds. */
async function openWaiting() {
  const { client, start, end } = await open();
  const bucket = tempDir();
  const script = `
    echo "$FLUSTER_ATTEMPT_ID"
    [ "$FLUSTER_ATTEMPT_ID" = 0 ] || exit $((2 - FLUSTER_ATTEMPT_ID))
    until [ -s "$BUCKET/child" ]; do sleep 0.02; done
    printf '{"status": "waiting", "children": ["%s"]}' "$(cat "$BUCKET/child")" > "$PERDURE_RESULT_FILE"`;
  return {
    client,
    bucket,
    async start() {
      const id = await start(script, { environment: { env_vars: { BUCKET: bucket } } });
      return { id, end: () => end(id) };
    },
  };
}

describe("a command of fluster", () => {
  it("has its job and its attempt, from 0", async () => {
    const { run } = await open();
    const { id, status, lines } = await run('echo "$FLUSTER_JOB_ID"; echo "$FLUSTER_ATTEMPT_ID"; exit 1');
    expect(status).toMatchObject({ state: "FAILED", failure_count: 3, current_attempt_id: 2, exit_code: 1 });
    expect(lines).toEqual([
      [id, "0"],
      [id, "1"],
      [id, "2"],
    ]);
  });

  it("finds as FLUSTER_ATTEMPT_ID what attempts show, without gaps, also after it has waited for a child", async () => {
    const { client, bucket, start } = await openWaiting();
    const parent = await start();
    const child = await client.submit({ entrypoint: ["true"], name: "child", parent_job_id: parent.id });
    writeFileSync(join(bucket, "child"), child);
    const { status, lines } = await parent.end();
    expect(lines).toEqual([["0"], ["1"], ["2"]]);
    expect(status).toMatchObject({ state: "SUCCEEDED", failure_count: 1, preemption_count: 0, current_attempt_id: 2 });
    expect(status.attempts).toMatchObject([
      { attempt_id: 0, state: "KILLED", error: "Ended to wait for its children; not counted" },
      { attempt_id: 1, state: "FAILED", exit_code: 1 },
      { attempt_id: 2, state: "SUCCEEDED", exit_code: 0 },
    ]);
  });

  it("has a directory of its own for each attempt, which stays", async () => {
    const { run, dirOf } = await open();
    const before = '[ -z "$PERDURE_PREVIOUS_OUTPUT_DIR" ] || ls "$PERDURE_PREVIOUS_OUTPUT_DIR" | sed "s/^/before: /"';
    const { id, lines } = await run(`ls; ${before}; touch left-behind; pwd; exit 1`);
    expect(lines.map((each) => each.at(-1))).toEqual([1, 2, 3].map((attempt) => dirOf(id, attempt)));
    expect(lines.flat()).not.toContain("left-behind");
    // The next attempt finds the directory of the previous one unchanged. Files are deleted only at the end of the job.
    expect(lines.map((each) => each.includes("before: left-behind"))).toEqual([false, true, true]);
  });

  it("is given its ports in each attempt, all of them free", async () => {
    const { run } = await open();
    // The script itself listens: afterwards other programs may get these ports.
    const listen = "IO::Socket::INET->new(LocalPort => shift, Listen => 1) or die qq(taken)";
    const script = `for port in "$FLUSTER_PORT_HTTP" "$FLUSTER_PORT_MY_ACTOR"; do
      perl -MIO::Socket::INET -e '${listen}' "$port" && echo "$port"; done; exit 1`;
    const { lines } = await run(script, { ports: ["http", "my-actor"] });
    expect(lines).toHaveLength(3);
    for (const ports of lines) {
      expect(new Set(ports).size).toBe(2);
      for (const port of ports) expect(port).toMatch(/^\d+$/);
    }
  });

  it("has the variables of its environment", async () => {
    const { run } = await open();
    const env_vars = { BUCKET: "gs://bucket", EMPTY: "" };
    const { status, lines } = await run('echo "$BUCKET,$EMPTY,"', { environment: { env_vars } });
    expect(status).toMatchObject({ state: "SUCCEEDED", exit_code: 0, worker_id: "worker-1" });
    expect(lines).toEqual([["gs://bucket,,"]]);
  });

  it("continues from the checkpoint of the previous attempt: the example of Idempotency Considerations", async () => {
    const { run } = await open();
    const bucket = tempDir();
    const script = `
      own="$BUCKET/job-$FLUSTER_JOB_ID-checkpoint_$FLUSTER_ATTEMPT_ID"
      if [ "$FLUSTER_ATTEMPT_ID" -gt 0 ]; then
        previous="$BUCKET/job-$FLUSTER_JOB_ID-checkpoint_$((FLUSTER_ATTEMPT_ID - 1))"
        [ -e "$previous" ] && state=$(cat "$previous")
      fi
      state="$state+"
      echo "$state" | tee "$own"
      [ "$state" = "+++" ]`;
    const { id, status, lines } = await run(script, { environment: { env_vars: { BUCKET: bucket } } });
    expect(status).toMatchObject({ state: "SUCCEEDED", failure_count: 2 });
    expect(lines).toEqual([["+"], ["++"], ["+++"]]);
    expect(existsSync(join(bucket, `job-${id}-checkpoint_2`))).toBe(true);
  });

  it("that ends by a signal has the code that lists match", async () => {
    const { run } = await open();
    const retry = { max_retries_failure: 1, initial_delay: 0.001, retry_on_exit_codes: [137, 139] };
    const { status } = await run('[ "$FLUSTER_ATTEMPT_ID" = 0 ] && kill -SEGV $$; exit 3', { retry });
    expect(status).toMatchObject({ state: "FAILED", exit_code: 3, attempts: [{ exit_code: 139 }, { exit_code: 3 }] });
  });

  it("that uses more than resources.memory fails with exit code 137, counts as a failure, and is retried if 137 is", async () => {
    const { run } = await open();
    // It allocates memory and waits until it is killed. In its last attempt it allocates none.
    const hog = `[ "$FLUSTER_ATTEMPT_ID" -ge 2 ] || exec perl -e 'my $x = "a" x 100_000_000; sleep 1000'`;
    const resources = { cpu: 0.1, memory: "64m" };
    const retry = { max_retries_failure: 5, initial_delay: 0.001, retry_on_exit_codes: [137] };
    const { status } = await run(hog, { resources, retry });
    expect(status).toMatchObject({ state: "SUCCEEDED", failure_count: 2, preemption_count: 0, current_attempt_id: 2 });
    const killed = { state: "FAILED", exit_code: 137, is_worker_failure: false };
    expect(status.attempts).toMatchObject([killed, killed, { state: "SUCCEEDED", exit_code: 0 }]);
    expect(status.attempts[0]?.error).toMatch(/^out of memory: used \d{8,9} bytes, over its limit/);

    const final = await run(hog, { resources, retry: { max_retries_failure: 5, no_retry_on_exit_codes: [137] } });
    expect(final.status).toMatchObject({ state: "FAILED", exit_code: 137, failure_count: 1, attempts: [killed] });
  });

  it("is killed when it is terminated, and not retried", async () => {
    const { client, perdure } = await open();
    const entrypoint = Entrypoint.fromCommand(["sleep", "1000"]);
    const id = await client.submit({ entrypoint, name: "sleeper", retry: { max_retries_failure: 5 } });
    for await (const { name } of (await perdure.job(id)).events({ follow: true })) {
      if (name === "attempt.started") break;
    }
    expect(await client.status(id)).toMatchObject({ state: "RUNNING", worker_id: "worker-1", current_attempt_id: 0 });
    await client.terminate(id);
    expect(await client.wait(id, WAIT)).toMatchObject({ state: "KILLED", attempts: [{ state: "KILLED" }] });
  });

  it("of the example's file fails twice and then gets through", async () => {
    const { perdure, dirOf } = await open();
    const text = readFileSync(join(ROOT, "examples/fluster/flaky-job.yaml"), "utf8");
    const document = readYaml(text, "flaky-job.yaml").value;
    expect(flusterDialect.recognises(document)).toBe(true);
    const { jobs, notes } = flusterDialect.read(document, readContext());
    expect(notes).toEqual([]);
    const [answer] = await perdure.submitMany(jobs);
    if (!answer?.ok) throw answer?.error;
    await answer.job.result({ timeout: 25_000 });
    const status: FlusterStatus = await fluster(perdure).status(answer.job.id);
    expect(status).toMatchObject({ name: "flaky-job", state: "SUCCEEDED", failure_count: 2, current_attempt_id: 2 });
    expect(status.attempts[0]).toMatchObject({ exit_code: 1, error: "exit code 1: Random failure" });
    expect(readFileSync(join(dirOf(answer.job.id, 3), "stdout.log"), "utf8")).toMatch(
      new RegExp(`^attempt 2 of ${answer.job.id}, with port \\d+\nsuccess\n$`),
    );
  });
});
