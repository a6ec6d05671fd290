/** `perdure simulate`: input and output. The decisions are tested in `src/core`. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import type { Distribution, SimulatedEnd, SimulatedStep } from "../../src/core/simulate/simulate.ts";
import { DIALECT_DEFAULTS } from "../../src/dialects/settings.ts";
import type { DialectEnd } from "../../src/dialects/simulated-end.ts";
import { startServer } from "../server/kit.ts";
import { DANGEROUS, perdure, uncoloured } from "./kit.ts";

const dir = mkdtempSync(join(tmpdir(), "perdure-simulate-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const run = (...argv: string[]) => perdure(["simulate", ...argv], { cwd: dir });

function file(name: string, text: string): string {
  writeFileSync(join(dir, name), text);
  return name;
}

interface Simulated {
  readonly attempts: readonly SimulatedStep[];
  readonly end: SimulatedEnd & { readonly dialect: DialectEnd | null };
  readonly seed: number | null;
}

async function simulated(...argv: string[]): Promise<Simulated> {
  const { code, stdout, stderr } = await run(...argv, "--json");
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as Simulated;
}

const delays = ({ attempts }: Simulated) =>
  attempts.flatMap(({ delayMs }) => (delayMs === null ? [] : [delayMs / 1_000]));
const ranges = ({ attempts }: Simulated) =>
  attempts.flatMap(({ delayRangeMs: range }) => (range === null ? [] : [range.map((ms) => ms / 1_000)]));

const TASK = file(
  "task.yaml",
  "argv: [./backup.sh]\ntimeout: 5m\nretry: { maxAttempts: 3, backoff: { initial: 2s, factor: 3 } }\n",
);

describe("the presets", () => {
  it("opal: lost twice, it fails with max_retries_exceeded_a2 after 8 s", async () => {
    const simulation = await simulated("--preset", "opal", "--outcomes", "lost,lost");
    expect(delays(simulation)).toEqual([8]);
    expect(simulation.end).toMatchObject({ state: "failed", reason: "lost", totalMs: 8_000, attempts: 2 });
    expect(simulation.end.dialect).toEqual({ dialect: "opal", status: "failed", error: "max_retries_exceeded_a2" });
    const { stdout } = await run("--preset", "opal", "--outcomes", "lost,lost");
    expect(stdout).toContain("failed (lost) after 2 attempts, 8 s in all: ");
    expect(stdout).toMatch(/in the terms of opal: failed, max_retries_exceeded_a2\n$/);
  });

  it("have the numbers of their documents, and report settings that differ", async () => {
    const env = { OPAL_MAX_RETRIES: "3", OPAL_LEASE_TTL_SECS: "20" };
    const simulate = (...argv: string[]) =>
      perdure(["simulate", ...argv, "--outcomes", "lost,lost"], { cwd: dir, env });
    const { code, stdout, stderr } = await simulate("--preset", "opal");
    expect(code).toBe(0);
    expect(stdout).toMatch(/in the terms of opal: failed, max_retries_exceeded_a2\n$/);
    expect(stderr).toBe(
      "note: OPAL_MAX_RETRIES is ignored: --preset opal has the numbers of its document; the setting applies to files passed with -f\n",
    );
    // A file uses these settings, and other presets ignore them.
    const opal = await simulate("-f", file("opal-set.yaml", "prompt: hello\nmetadata: {}\n"));
    expect([opal.stderr, opal.stdout]).toEqual(["", expect.stringContaining("lease_expired_retry_2")]);
    expect((await simulate("--preset", "fluster")).stderr).toBe("");
  });

  it("opal with three attempts: 8 s, then 15 s", async () => {
    expect(
      delays(await simulated("--preset", "opal", "--max-attempts", "3", "--outcomes", "lost", "--repeat")),
    ).toEqual([8, 15]);
  });

  it("fluster: 1, 2, 4, 8, 16 s, and at most 30 s", async () => {
    const simulation = await simulated(
      "--preset",
      "fluster",
      "--max-attempts",
      "8",
      "--backoff-max",
      "30s",
      "--repeat",
      "--outcomes",
      "fail",
    );
    expect(delays(simulation)).toEqual([1, 2, 4, 8, 16, 30, 30]);
    expect(simulation.end.dialect).toMatchObject({ status: "FAILED", error: "exit code 1" });
    const lost = await simulated("--preset", "fluster", "--outcomes", "lost", "--repeat");
    expect(lost.end).toMatchObject({ attempts: 101, totalMs: 0, dialect: { status: "WORKER_FAILED" } });
  });

  it("noetl: 1.0 and 2.0 s, and its three events at the end", async () => {
    const simulation = await simulated("--preset", "noetl", "--outcomes", "fail,fail,fail");
    expect(delays(simulation)).toEqual([1, 2]);
    expect(simulation.end.dialect?.status).toBe("step_retry_exhausted, step_failed_terminal, execution_failed");
    expect((await simulated("--preset", "noetl", "--outcomes", "fail,ok")).end.dialect?.status).toBe("step_completed");
  });

  it("attune: 0.8–1.2, 1.6–2.4, 3.2–4.8, 6.4–9.6 s", async () => {
    const simulation = await simulated(
      "--preset",
      "attune",
      "--max-attempts",
      "5",
      "--outcomes",
      "error:connection reset",
      "--repeat",
    );
    expect(delays(simulation)).toEqual([1, 2, 4, 8]);
    expect(ranges(simulation)).toEqual([
      [0.8, 1.2],
      [1.6, 2.4],
      [3.2, 4.8],
      [6.4, 9.6],
    ]);
    expect(simulation.end.totalRangeMs).toEqual([12_000, 18_000]);
    expect(simulation.end.dialect).toMatchObject({ dialect: "attune", status: "failed" });
  });

  it("agent: 30, 60, 120, 240, 300 s, plus or minus a quarter", async () => {
    const simulation = await simulated("--preset", "agent", "--max-attempts", "6", "--outcomes", "fail", "--repeat");
    expect(delays(simulation)).toEqual([30, 60, 120, 240, 300]);
    expect(ranges(simulation)).toEqual([30, 60, 120, 240, 300].map((s) => [s * 0.75, s * 1.25]));
    expect(simulation.end.dialect).toMatchObject({ dialect: "agent-task", status: "Failed" });
    expect((await simulated("--preset", "agent", "--outcomes", "ok")).end.dialect).toMatchObject({
      status: "Completed",
      error: null,
    });
  });
});

describe("a file", () => {
  it("sets the policy and the timeout; --jitter 0 makes the delays exact", async () => {
    const simulation = await simulated("-f", TASK, "--outcomes", "fail,lost,timeout,ok", "--jitter", "0");
    const seen = simulation.attempts.map(({ outcome, startMs, tookMs, decision, delayMs, delayRangeMs }) => {
      return [outcome, startMs, tookMs, decision, delayMs, delayRangeMs];
    });
    expect(seen).toEqual([
      ["fail", 0, 0, "retry", 2_000, [2_000, 2_000]],
      ["lost", 2_000, 0, "retry", 0, [0, 0]],
      ["timeout", 2_000, 300_000, "retry", 6_000, [6_000, 6_000]],
      ["ok", 308_000, 0, "succeed", null, null],
    ]);
    expect(simulation.end).toMatchObject({ state: "succeeded", totalMs: 308_000, totalRangeMs: [308_000, 308_000] });
    expect(simulation.end.dialect).toBe(null);
  });

  it("may have its attempts and its jitter changed by options, and nothing else", async () => {
    expect((await simulated("-f", TASK, "--max-attempts", "1")).end.attempts).toBe(1);
    expect(ranges(await simulated("-f", TASK, "--outcomes", "fail", "--jitter", "0.5"))).toEqual([[1, 3]]);
    const { code, stderr } = await run("-f", TASK, "--backoff", "1s");
    expect([code, stderr]).toEqual([
      2,
      "perdure simulate: --backoff and --file cannot be used together: put it into the file\n",
    ]);
  });

  it("may contain only a policy, in Perdure's format or in that of a dialect", async () => {
    const wanted: readonly (readonly [string, readonly number[]])[] = [
      ["retry: { maxAttempts: 3 }\n", [1, 2]],
      ["retry: { maxAttempts: 3, backoff: { type: fixed, delay: 5s } }\n", [5, 5]],
      ["retry: { max_retries_failure: 2, initial_retry_delay_ms: 500 }\n", [0.5, 1]],
      ["retry: { max_attempts: 3, initial_delay: 2.0, jitter: false }\n", [2, 4]],
      ["retry: { maxAttempts: 3, backoffSeconds: 15 }\n", [15, 30]],
    ];
    for (const [text, seconds] of wanted) {
      expect(delays(await simulated("-f", file("retry.yaml", text), "--outcomes", "fail,fail,fail"))).toEqual(seconds);
    }
    const attune = file("retry.yaml", "retry: { max_retries: 2, base_backoff_secs: 3 }\n");
    expect(delays(await simulated("-f", attune, "--outcomes", "error:timed out", "--repeat"))).toEqual([3, 6]);
  });

  it("with retry: true means what the dialect of --dialect means by it", async () => {
    const plain = file("retry.yaml", "retry: true\n");
    const noetl = await simulated("-f", plain, "--dialect", "noetl", "--outcomes", "fail", "--repeat");
    expect([delays(noetl), ranges(noetl)]).toEqual([
      [1, 2],
      [
        [0.5, 1.5],
        [1, 3],
      ],
    ]);
  });

  it("does not require a program that could run it", async () => {
    const opal = file("opal.yaml", "prompt: hello\nmetadata: {}\n");
    expect(delays(await simulated("-f", opal, "--outcomes", "lost,lost"))).toEqual([8]);
  });

  it("may be in the format of a dialect, and the end is shown in its terms", async () => {
    const wanted: readonly (readonly [string, string, readonly number[], string])[] = [
      [
        "name: train\nentrypoint: { command: [./train.sh] }\nresources: { cpu: 1 }\nretry: { max_retries_failure: 2 }\n",
        "fail,lost,fail,fail",
        [1, 0, 2],
        "fluster: FAILED",
      ],
      [
        "step: fetch\ntype: http\nurl: https://example.org/\nretry: { max_attempts: 3, jitter: false }\n",
        "http:503,http:404,http:500",
        [1, 2],
        "noetl: step_retry_exhausted, step_failed_terminal, execution_failed",
      ],
      [
        "name: fetch\nruntime: shell\nentrypoint: fetch.sh\ntimeout_seconds: 120\nmax_retries: 1\n",
        "timeout,lost",
        [1],
        "attune: abandoned",
      ],
      [
        "apiVersion: core.hortator.ai/v1alpha1\nkind: AgentTask\nmetadata: { name: t }\n" +
          "spec: { prompt: p, command: [agent], tier: legionary }\n",
        "fail,oom,logical:cannot",
        [15, 30],
        "agent-task: Failed",
      ],
    ];
    file("fetch.sh", "exit 1\n");
    for (const [text, outcomes, seconds, end] of wanted) {
      const argv = ["-f", file("foreign.yaml", text), "--outcomes", outcomes, "--jitter", "0"];
      const { code, stdout, stderr } = await run(...argv, "--json");
      expect([code, stderr], text).toEqual([0, expect.anything()]);
      expect(delays(JSON.parse(stdout) as Simulated)).toEqual(seconds);
      expect((await run(...argv)).stdout).toContain(`in the terms of ${end}`);
    }
  });

  it("of a dialect takes the defaults of the server, if there is one", async () => {
    const fluster = { ...DIALECT_DEFAULTS.fluster, defaultMaxRetriesFailure: 4, defaultRetryDelayMs: 3_000 };
    const server = await startServer({ dialects: { ...DIALECT_DEFAULTS, fluster } });
    onTestFinished(server.close);
    const env = { PERDURE_TOKEN: server.admin, PERDURE_URL: server.url };
    const job = file("f.yaml", "name: train\nentrypoint: { command: [./train.sh] }\nresources: { cpu: 1 }\n");
    const alone = file("alone.yaml", "retry: { max_retries_preemption: 9 }\n");
    for (const name of [job, alone]) {
      const argv = ["simulate", "-f", name, "--jitter", "0", "--json"];
      const there = await perdure(argv, { cwd: dir, env });
      expect(there).toMatchObject({ code: 0, stderr: "" });
      expect(delays(JSON.parse(there.stdout) as Simulated)).toEqual([3, 6, 12, 24]);
      const here = await perdure(argv, { cwd: dir });
      expect(delays(JSON.parse(here.stdout) as Simulated)).toEqual([]);
      // --data selects the local settings.
      expect((await perdure([...argv, "--data", "none"], { cwd: dir, env })).stdout).toBe(here.stdout);
    }
    // A file in Perdure's own format requires no server.
    const unreachable = { PERDURE_URL: "http://127.0.0.1:1", PERDURE_TOKEN: "t" };
    expect(await perdure(["simulate", "-f", TASK], { cwd: dir, env: unreachable })).toMatchObject({ code: 0 });
    expect(await perdure(["simulate", "-f", job], { cwd: dir, env: unreachable })).toMatchObject({ code: 1 });
    expect(await run("--server", server.url)).toMatchObject({
      ...{ code: 2, stderr: expect.stringContaining("--server requires --file") },
    });
  });

  it("with several jobs requires --job", async () => {
    const jobs = file("jobs.yaml", "jobs:\n  - { argv: [a], retry: 2 }\n  - { argv: [b], retry: 4 }\n");
    expect((await simulated("-f", jobs, "--job", "2")).end.attempts).toBe(4);
    expect(await run("-f", jobs)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("has 2 jobs; choose one with --job"),
    });
    expect(await run("-f", jobs, "--job", "3")).toMatchObject({ code: 2 });
    expect(await run("--job", "1")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--job requires --file"),
    });
  });

  it.each([
    ["retry:\n  maxAtempts: 3\n", /bad\.yaml:2:3: .*unknown field "maxAtempts".*Did you mean "maxAttempts"\?/],
    ["retry:\n  max_attempts: -1\n", /bad\.yaml:2:3: /],
    ["retry:\n  retryWhen: '{{ 1 + }}'\n", /bad\.yaml:2:3: /],
    ["argv: [a]\nretry:\n  maxAttempts: x\n", /bad\.yaml:3:3: /],
    ["retry: {\n", /bad\.yaml:\d+:\d+: /],
  ])("with a mistake is refused with its position: %j", async (text, message) => {
    const { code, stdout, stderr } = await run("-f", file("bad.yaml", text));
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(message);
  });

  it("that does not exist is an error", async () => {
    expect(await run("-f", "none.yaml")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("does not exist"),
    });
  });
});

describe("the simulated outcomes", () => {
  it("are repeated failures by default", async () => {
    expect((await simulated()).end).toMatchObject({ reason: "exhausted", attempts: 5 });
  });

  it("are the same with --preset default as without a preset", async () => {
    expect(await simulated("--preset", "default")).toEqual(await simulated());
    expect((await simulated("--preset", "default", "--max-attempts", "2")).end.attempts).toBe(2);
  });

  it("are reported as unused if the job ends before them", async () => {
    const early = await run("--preset", "attune", "--outcomes", "fail:3,lost,ok", "--json");
    expect(early).toMatchObject({ code: 0, stdout: expect.stringContaining('"attempts": 1') });
    expect(early.stderr).toBe("note: the job ended before the last 2 outcomes\n");
    expect((await run("--outcomes", "fail,ok")).stderr).toBe("");
    expect((await run("--max-attempts", "1", "--outcomes", "fail", "--repeat")).stderr).toBe("");
  });

  it("may be used up before the job ends", async () => {
    expect((await simulated("--outcomes", "fail")).end).toMatchObject({
      state: "queued",
      stopped: "script",
      nextRunMs: 1_000,
    });
    const { stdout } = await run("--outcomes", "fail");
    expect(stdout).toMatch(
      /still queued after 1 attempt: the outcomes are used up; the next attempt would be due after 1 s\n$/,
    );
  });

  it("take time and use up budgets", async () => {
    const retry = file("budget.yaml", "retry: { maxAttempts: 9, budget: { tokens: 100, costUsd: 1 } }\n");
    expect((await simulated("-f", retry, "--tokens", "50", "--takes", "1m")).end).toMatchObject({
      ...{ reason: "budget", detail: "tokens", attempts: 2, totalMs: 121_000 },
    });
    expect((await simulated("-f", retry, "--cost", "0.25")).end).toMatchObject({ detail: "costUsd", attempts: 4 });
  });

  it("draw jitter from a seed, the same each time", async () => {
    const [one, again, other] = [
      await simulated("--seed", "7"),
      await simulated("--seed", "7"),
      await simulated("--seed", "8"),
    ];
    expect(one).toEqual(again);
    expect(delays(one)).not.toEqual(delays(other));
    expect(one.seed).toBe(7);
    expect((await simulated()).seed).toBe(null);
  });

  it("may be failures at a rate, for one job or for many", async () => {
    expect((await simulated("--failure-rate", "0")).end).toMatchObject({ state: "succeeded", attempts: 1 });
    expect((await simulated("--failure-rate", "1", "--outcomes", "oom,lost")).end.state).toBe("failed");
    const { stdout } = await run(
      "--failure-rate",
      "0.5",
      "--runs",
      "2000",
      "--max-attempts",
      "3",
      "--seed",
      "3",
      "--json",
    );
    const { runs, succeededShare, attempts, ends } = JSON.parse(stdout) as Distribution;
    expect(runs).toBe(2_000);
    expect(Math.abs(succeededShare - 7 / 8)).toBeLessThan(0.03);
    expect(Math.abs(attempts.mean - 1.75)).toBeLessThan(0.06);
    expect(attempts).toMatchObject({ least: 1, p90: 3, most: 3 });
    expect(ends.map(({ reason }) => reason)).toEqual([null, "exhausted"]);
    const many = await run("--failure-rate", "0.5", "--runs", "2000", "--max-attempts", "3");
    expect(many.stdout).toMatch(
      /^END .*\nsucceeded .* %\nfailed \(exhausted\) .* %\n\n +MEAN .*\nattempts .*\ntotal time .*\n\n.* % of 2000 simulations succeeded\n$/,
    );
  });

  it.each([
    [["--outcomes", "fial"], /--outcomes: must be .*; got "fial"\. Did you mean "fail"\?/],
    [["--outcomes", "exit:300"], /exit:EXITCODE/],
    [["--failure-rate", "1.1"], /--failure-rate: must be a number from 0 to 1.*; got "1.1"/],
    [["--failure-rate", "x"], /--failure-rate: /],
    [["--runs", "5"], /--runs requires --failure-rate/],
    [["--failure-rate", "0.5", "--outcomes", "fail,ok"], /--outcomes: with --failure-rate, must be failures; got ok/],
    [["--failure-rate", "0.5", "--outcomes", "exit:00"], /got exit:00/],
    [["--failure-rate", "0.5", "--outcomes", "http:503,http:200"], /got http:200/],
    [["--failure-rate", "1", "--repeat"], /--repeat and --failure-rate cannot be used together/],
    [["--seed", "-1"], /--seed/],
    [["--takes", "5"], /--takes: must be a time with its unit.*; got "5"/],
    [["--cost", "x"], /--cost: must be .*; got "x"/],
    [["--jitter", "1"], /--jitter: must be a number from 0 to below 1.*; got 1/],
    [["--preset", "opla"], /--preset: must be .*; got "opla"\. Did you mean "opal"\?/],
    [["--max-attempts", "0"], /--max-attempts/],
    [["-f", TASK, "--takes", "6m"], /--takes: 6 min is longer than the job's timeout of 5 min/],
    [["extra"], /unexpected argument "extra"/],
  ])("are refused with %j", async (argv, message) => {
    const { code, stdout, stderr } = await run(...argv);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(message);
  });
});

describe("on a terminal", () => {
  const wide = { cwd: dir, columns: 90, isTTY: true };
  const argv = ["simulate", "--max-attempts", "3", "--takes", "1s", "--outcomes", "fail,lost,ok"];

  it("there is a table, a chart as wide as the terminal at most, and a last line", async () => {
    const { stdout } = await perdure(argv, { ...wide, env: { NO_COLOR: "1" } });
    expect(stdout.split("\n")).toEqual([
      expect.stringMatching(/^ATTEMPT +START +TOOK +OUTCOME +DECISION +WAIT +RANGE +COUNTED/),
      expect.stringMatching(/^ +1 +0 ms +1 s +fail +retry +1 s +800 ms–1.2 s +1\/3/),
      expect.stringMatching(/^ +2 +2 s +1 s +lost +retry +0 ms +workerLost/),
      expect.stringMatching(/^ +3 +3 s +1 s +ok +succeed/),
      "",
      expect.stringMatching(/^attempt 1 {2}█+░+·+$/),
      expect.stringMatching(/^attempt 2 {2} +█+$/),
      expect.stringMatching(/^attempt 3 {2} +█+$/),
      expect.stringMatching(/^ {11}0 +4 s$/),
      expect.stringMatching(/^ {11}█ attempt {3}░ wait {3}· where jitter/),
      "",
      "succeeded after 3 attempts, 4 s in all (3.8–4.2 s): the task completed",
      "",
    ]);
    for (const line of stdout.split("\n").slice(0, -2)) expect(line.length).toBeLessThanOrEqual(90);
  });

  it("colours are used as in other commands", async () => {
    const coloured = (await perdure(argv, wide)).stdout;
    const plain = (await perdure(argv, { ...wide, env: { NO_COLOR: "1" } })).stdout;
    expect(coloured).not.toBe(plain);
    expect(uncoloured(coloured)).toBe(plain);
  });

  it("a long schedule is cut in the middle, and hostile text is escaped", async () => {
    const { stdout } = await run("--max-attempts", "300", "--repeat", "--outcomes", "error:\x1b[2J\u202e");
    expect(stdout).toContain("200 more: see --json");
    expect(stdout.split("\n").length).toBeLessThan(230);
    expect(stdout).not.toMatch(DANGEROUS);
    expect((await simulated("--max-attempts", "300")).attempts.length).toBe(300);
  });

  it("there is no chart if no time passes; a result that depends on chance is marked", async () => {
    expect((await run("--outcomes", "ok")).stdout).not.toMatch(/█|TOOK/);
    const close = file("close.yaml", "retry: { maxAttempts: 9, maxElapsed: 3s }\n");
    expect((await run("-f", close)).stdout).toContain("With other jitter the job may end sooner or later");
  });
});

describe("a playbook", () => {
  const head = "apiVersion: perdure/v1\nkind: Playbook\nmetadata: { name: shop }\n";
  const SHOP = file(
    "shop.yaml",
    `${head}inputs: { days: { type: integer, default: 1 } }
workflow:
  - step: fetch
    type: http
    url: "https://shop.example.org/orders"
    retry: { maxAttempts: 3, backoff: { initial: 1s, jitter: 0 } }
    next: [{ step: alarm, when: "{{ error != None }}" }, { step: charge }]
  - step: charge
    type: playbook
    path: ./parts/pay.yaml
    loop: { in: "{{ fetch.data }}", iterator: order, mode: sequential }
    data: { order: "{{ order }}" }
  - { step: alarm, type: shell, command: "echo {{ fetch.error }}" }
`,
  );
  mkdirSync(join(dir, "parts"));
  file(
    "parts/pay.yaml",
    `${head}workflow: [{ step: pay, type: task, task: pay, data: { order: "{{ inputs.order }}" } }]\n`,
  );

  it("is played with a script, with its retries, its arcs and the files beside it", async () => {
    file("script.yaml", 'fetch: [503, { ok: [a1, b2] }]\n"charge[1]/pay": [{ ok: { id: p2 }, takes: 2s }]\n');
    const { code, stdout, stderr } = await run("-f", SHOP, "--outcomes", "script.yaml", "--takes", "500ms");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("attempt 1: http:503; retrying in 1 s");
    expect(stdout).toContain("→ alarm when error != None: not taken");
    expect(stdout).toMatch(/4\.5 s +run +succeeded/);
    expect(stdout).toContain("succeeded after 4 steps and 4 attempts, 4.5 s");
    expect(stdout).toMatch(/"id": "p2"/);
  });

  it("is played many times, with the same ends for the same seed", async () => {
    const often = ["-f", SHOP, "--failure-rate", "0.5", "--runs", "50", "--seed", "7", "--json"];
    const [first, again] = await Promise.all([run(...often), run(...often)]);
    expect(first.stdout).toBe(again.stdout);
    expect(JSON.parse(first.stdout)).toMatchObject({ runs: 50, seed: 7, attempts: { most: expect.any(Number) } });
    const { stdout } = await run(...often.slice(0, -1));
    expect(stdout).toMatch(/^succeeded +\d+/m);
    expect(stdout).toMatch(/^steps +/m);
  });

  it.each([
    [
      "another step in the script",
      ["--outcomes", file("typo.yaml", "fetc: ok\n")],
      'typo.yaml:1:1: the playbook has no step "fetc"; did you mean "fetch"?',
    ],
    ["another outcome", ["--outcomes", file("word.yaml", "fetch: nope\n")], "word.yaml:1:1: fetch: must be one of ok,"],
    ["a list", ["--outcomes", "fail,ok"], "--outcomes: must be a file with the outcomes of each step"],
    ["a file that does not exist", ["--outcomes", "none.yaml"], 'file "none.yaml" does not exist'],
    ["an input that it does not accept", ["-p", "days=x"], '--param: days: must be a whole number; got "x"'],
    ["a policy", ["--max-attempts", "3"], "--max-attempts and a playbook cannot be used together"],
    ["runs without a rate", ["--runs", "9"], "--runs requires --failure-rate"],
  ])("is refused with %s", async (_, argv, message) => {
    const { code, stdout, stderr } = await run("-f", SHOP, ...argv);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(message);
  });

  it("is refused without an input that it requires", async () => {
    file("needs.yaml", `${head}inputs: { city: { required: true } }\nworkflow: [{ step: a }]\n`);
    const { code, stderr } = await run("-f", "needs.yaml");
    expect([code, stderr]).toEqual([2, "perdure simulate: --param: city: is missing; must be a value\n"]);
  });

  it("with mistakes is refused with all of them", async () => {
    file("wrong.yaml", `${head}workflow: [{ step: a, next: b }, { step: c, type: shel }]\n`);
    const { code, stderr } = await run("-f", "wrong.yaml");
    expect(code).toBe(2);
    expect(stderr).toContain('unknown step "b"');
    expect(stderr).toContain('unknown type "shel"');
  });
});
