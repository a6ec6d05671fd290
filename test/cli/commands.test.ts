/** Commands that change jobs, queues and workers, on a local data directory and through a server. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { filterOf } from "../../src/cli/commands/redrive.ts";
import type { Perdure } from "../../src/core/api.ts";
import { NonRetryableError } from "../../src/core/decision/failure.ts";
import { task } from "../../src/core/task/task.ts";
import { gate } from "../kit.ts";
import { claimAndVanish, HOSTILE, perdure } from "./kit.ts";
import { KINDS, newDir, openWhere } from "./targets.ts";

const UNKNOWN = "job_01m7gekg9zevv9a6xvvwmt1v8g";

const hopeless = task("hopeless", {}, () => {
  throw new NonRetryableError("no");
});

/** Jobs that failed, in the order of their tags. */
async function failed(library: Perdure, ...tags: string[]): Promise<string[]> {
  const worker = await library.work([hopeless]);
  const ids: string[] = [];
  for (const tag of tags) {
    const job = await library.submit(hopeless, undefined, { tags: [tag], queue: `q-${tag}` });
    await job.result().catch(() => {});
    ids.push(job.id);
  }
  await worker.stop();
  return ids;
}

const stateOf = async (library: Perdure, id: string) => (await (await library.job(id)).get()).state;

/** Jobs that were made due again, and that no worker takes. */
const noWorkerNote = (kind: (typeof KINDS)[number]) =>
  `no worker is running; start one with \`perdure ${kind === "data" ? "up" : "worker"}\`\n`;

describe.each(KINDS)("jobs on %s", (kind) => {
  it("are cancelled, with one answer per job", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const [a, b, c] = await Promise.all([1, 2, 3].map(async () => (await library.submit("k")).id));
    const said = await ask("cancel", a as string, UNKNOWN, b as string, a as string);
    expect(said).toMatchObject({ code: 1, stdout: `${a}  cancelled\n${b}  cancelled\n` });
    expect(said.stderr).toMatch(new RegExp(`^perdure cancel: [^\\n]*${UNKNOWN}[^\\n]*\\n$`));
    expect(await askJson("cancel", c as string, UNKNOWN)).toEqual([
      { id: c, ok: true, state: "cancelled", reason: null },
      { id: UNKNOWN, ok: false, error: { code: "job_not_found", message: expect.any(String) } },
    ]);
  });

  it("that have ended are not cancelled: exit code 1, and how they ended", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const [dead] = (await failed(library, "a")) as [string];
    const { id } = await library.submit("k");
    await library.cancel(id);
    const said = await ask("cancel", dead, id);
    expect(said).toMatchObject({ code: 1, stdout: "" });
    expect(said.stderr).toMatch(
      new RegExp(
        `^perdure cancel: ${dead} already ended: failed \\(rejected\\) at .*\nperdure cancel: ${id} already ended: cancelled at `,
      ),
    );
    const shown = await askJson("cancel", dead);
    expect(shown).toEqual([
      { id: dead, ok: false, error: { code: "wrong_state", message: expect.stringContaining("failed (rejected)") } },
    ]);
    expect(await stateOf(library, dead)).toBe("failed");
  });

  it("that wait are run at once, and failed ones are redriven", async () => {
    const { ask, library } = await openWhere(kind);
    const later = await library.submit("k", 1, { delay: "1h" });
    const [dead] = await failed(library, "a");
    const retried = await ask("retry", later.id, dead as string);
    expect(retried).toMatchObject({ code: 0, stderr: noWorkerNote(kind) });
    expect((await later.get()).runAt).toBeLessThanOrEqual(Date.now() + 1_000);
    expect(await (await library.job(dead as string)).get()).toMatchObject({ state: "queued", chapter: 2 });
  });

  it("that failed are redriven by their ids, and discarded", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const [a, b] = (await failed(library, "a", "b")) as [string, string];
    expect(await ask("redrive", a)).toMatchObject({ code: 0, stdout: `${a}  queued\n` });
    expect(await ask("redrive", a)).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining(a) });
    expect(await ask("discard", b)).toMatchObject({ code: 0, stdout: `${b}  failed (rejected, discarded)\n` });
    expect(await askJson("discard", a)).toMatchObject([{ id: a, ok: false, error: { code: "wrong_state" } }]);
  });

  it("that failed are redriven with changed options, by id and by filter", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const [a, b] = (await failed(library, "a", "terms")) as [string, string];
    const wish = ["--timeout", "2h", "--max-attempts", "9", "--priority", "1", "--deadline", "2100-01-01T00:00:00Z"];
    expect(await ask("redrive", a, ...wish)).toMatchObject({ code: 0 });
    expect(await ask("redrive", "--filter", "tag=terms", "--retry", '{"budget":{"tokens":5}}')).toMatchObject({
      code: 0,
    });
    const deadlineAt = Date.UTC(2100, 0, 1);
    expect(await askJson("get", a)).toMatchObject({
      timeoutMs: 7_200_000,
      priority: 1,
      deadlineAt,
      policy: { maxAttempts: 9 },
    });
    expect(await askJson("get", b)).toMatchObject({
      timeoutMs: null,
      policy: { maxAttempts: 1, budget: { tokens: 5 } },
    });
  });

  it("that failed are redriven by a filter, some or all of them", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const [a, b, c] = (await failed(library, "a", "b", "c")) as [string, string, string];
    const dry = await ask("redrive", "--filter", "state=failed", "--dry-run", "-n", "2");
    expect(dry).toEqual({ code: 0, stdout: `${a}\n${b}\n`, stderr: "would redrive: 2 jobs; there are more\n" });
    expect(await stateOf(library, a)).toBe("failed");
    expect(await askJson("redrive", "--filter", "tag=b,kind=hopeless,since=1h")).toEqual({
      ...{ dryRun: false, jobs: [b], skipped: [], more: false },
    });
    expect(await stateOf(library, b)).toBe("queued");
    const none = await ask("redrive", "--filter", "queue=q-b");
    expect(none).toEqual({ code: 0, stdout: "", stderr: "no matching dead letters\n" });
    const rest = await ask("redrive", "--filter", "queue=q-c", "--filter", "before=0s");
    expect(rest).toEqual({ code: 0, stdout: `${c}\n`, stderr: `redriven: 1 job\n${noWorkerNote(kind)}` });
  });
});

describe("a filter", () => {
  const NOW = Date.parse("2026-11-16T12:00:00Z");
  it("consists of words separated by commas", () => {
    expect(filterOf(["kind=exec,queue=a,b,tag=x=y", "key=k"], NOW)).toEqual({
      ...{ kind: "exec", queue: "a,b", tag: "x=y", key: "k" },
    });
    expect(filterOf(["since=2h,before=2026-11-16T12:30:00+01:00"], NOW)).toEqual({
      submittedAfter: NOW - 7_200_000,
      submittedBefore: NOW - 1_800_000,
    });
  });

  it.each([
    [["redrive"], /missing ID\. Usage/],
    [["redrive", UNKNOWN, "--filter", "kind=a"], /ids and --filter cannot be used together/],
    [["redrive", UNKNOWN, "--retry", "3", "--jitter", "0"], /--retry and --jitter cannot be used together/],
    [["redrive", UNKNOWN, "--max-attempts", "0"], /--max-attempts: must be .*; got "0"/],
    [["redrive", UNKNOWN, "--retry", '{"maxAttemps":2}'], /--retry: .*Did you mean "maxAttempts"/],
    [["redrive", UNKNOWN, "--dry-run"], /--dry-run requires --filter/],
    [["redrive", "--filter", "knd=a"], /got "knd=a"\. Did you mean kind\?/],
    [["redrive", "--filter", "colour=red"], /--filter: must be FIELD=VALUE, .*; got "colour=red"$/m],
    [["redrive", "--filter", "all"], /where FIELD is one of state, queue, kind/],
    [["redrive", "--filter", "kind="], /kind requires a value/],
    [["redrive", "--filter", "kind=a,kind=b"], /kind can be used only once/],
    [["redrive", "--filter", "state=cancelled"], /only failed jobs are dead letters/],
    [["redrive", "--filter", "since=monday"], /since: must be a time ago.*; got "monday"/],
    [["redrive", "--filter", "kind=a", "--limit", "0"], /--limit/],
    [["cancel"], /missing ID\. Usage: perdure cancel ID…/],
    [["cancel", UNKNOWN, "job\n1"], /"job\\n1" is neither the id nor the name of a job/],
    [["queues", "stop"], /unexpected argument "stop"/],
    [["queues", "pause"], /missing NAME\. Usage/],
    [["queues", "pause", "a\nb"], /NAME: must be 1 to 200 characters.*; got "a\\nb"/],
    [["drain"], /missing WORKER\. Usage/],
  ] as [string[], RegExp][])("or another mistake in %j is reported in one line", async (argv, line) => {
    const { code, stderr } = await perdure([...argv, "--data", newDir()]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/^perdure [^\n]+\n$/) });
    expect(stderr).toMatch(line);
  });
});

describe.each(KINDS)("queues on %s", (kind) => {
  it("are shown with their counts, paused and resumed", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    expect(await ask("queues")).toMatchObject({ code: 0, stdout: "", stderr: "no queues\n" });
    await library.submit("k", 1, { queue: "mail" });
    await library.submit("k", 1, { queue: "mail", delay: "1h" });
    await failed(library, "x");
    expect(await ask("queues", "pause", "mail")).toMatchObject({ code: 0, stdout: "mail: paused\n" });
    const { stdout } = await ask("queues");
    const [head, mail, other] = stdout.split("\n");
    expect(head).toMatch(/^QUEUE +QUEUED +DUE +RUNNING +BLOCKED +SUCCEEDED +FAILED +CANCELLED +PAUSED$/);
    expect(mail).toMatch(/^mail +2 +1 +0 +0 +0 +0 +0 +\d+\.?\d* m?s ago/);
    expect(other).toMatch(/^q-x +0 +0 +0 +0 +0 +1 +0$/);
    expect(await askJson("queues", "resume", "mail")).toEqual([{ queue: "mail", paused: false }]);
    expect(await askJson("queues")).toMatchObject([{ queue: "mail", paused: false, due: 1 }, { queue: "q-x" }]);
  });

  it("that do not exist are paused for future jobs, with a warning", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    await library.submit("k", 1, { queue: "mail" });
    const warning = "queue does not exist yet; jobs submitted to it will wait; did you mean mail?";
    const said = { code: 0, stdout: "mial: paused\n", stderr: `mial: ${warning}\n` };
    expect(await ask("queues", "pause", "mial")).toEqual(said);
    expect(await askJson("queues", "pause", "mai", "mail")).toEqual([
      { queue: "mai", paused: true, warning },
      { queue: "mail", paused: true },
    ]);
    await ask("queues", "resume", "mail");
    const resumed = await ask("queues", "resume", "mail", "other");
    expect(resumed).toMatchObject({ code: 0, stderr: "mail: it was not paused\nother: queue does not exist\n" });
  });
});

describe.each(KINDS)("workers on %s", (kind) => {
  it("are shown, drained by name, and waited for", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    expect(await ask("workers")).toMatchObject({ code: 0, stdout: "", stderr: "no workers\n" });
    const [started, open] = [gate(), gate()];
    const slow = task("slow", {}, async () => {
      started.open();
      await open.passed;
    });
    await library.work([slow], { name: `w\x1b[2J`, concurrency: 3 });
    await library.work([slow], { name: "other", queues: ["elsewhere"] });
    const job = await library.submit(slow);
    await started.passed;
    const { stdout } = await ask("workers");
    expect(stdout).toMatch(/^SESSION +NAME +HOST +STATE +KINDS +QUEUES .*RUNNING .*SEEN$/m);
    expect(stdout).toMatch(/^\w+ +w\\x1b\[2J +\S+\/\d+ +alive +slow .* 1\/3 /m);
    const all = await askJson<{ id: string; name: string; state: string }[]>("workers");
    expect(all.map(({ state }) => state)).toEqual(["alive", "alive"]);

    expect(await ask("drain", "nobody")).toMatchObject({
      ...{ code: 1, stdout: "", stderr: expect.stringContaining('worker "nobody" does not exist') },
    });
    const mine = all.find(({ name }) => name !== "other")?.id as string;
    expect(await ask("drain", mine)).toMatchObject({ code: 0, stdout: expect.stringContaining(`${mine}  w`) });
    expect((await ask("workers")).stdout).toMatch(/ draining /);
    open.open();
    await job.result();
    const waited = await ask("drain", mine, "other", "--wait");
    expect(waited.code).toBe(0);
    expect(waited.stdout).toMatch(/ {2}other: draining\n/);
    expect(waited.stdout + waited.stderr).toMatch(new RegExp(`${mine}( {2}ended| has already ended)\n`));
    expect((await ask("workers")).stderr).toContain("--all shows those that have ended");
    const ended = await askJson<{ state: string }[]>("workers", "--all");
    expect(ended.map(({ state }) => state)).toEqual(["ended", "ended"]);
    expect(await ask("drain", "other")).toEqual({ code: 0, stdout: "", stderr: "other has already ended\n" });
  });
});

it("a silent worker is listed as silent", async () => {
  const dir = newDir();
  expect((await perdure(["submit", "k", "--run-at", "2020-01-01T00:00:00Z"], { cwd: dir })).code).toBe(0);
  await claimAndVanish(join(dir, ".perdure"));
  const { stdout } = await perdure(["workers"], { cwd: dir });
  expect(stdout).toMatch(/^ses_gone +gone +elsewhere\/1 +silent +k,exec +1\/10 +[\d.]+ min ago$/m);
});

describe("prune", () => {
  it("deletes by the local settings without a server", async () => {
    const { ask, askJson, library, dir } = await openWhere("data");
    const [a] = (await failed(library, "a")) as [string];
    expect(await ask("prune")).toMatchObject({ code: 0, stdout: "deleted 0 jobs\n" });
    writeFileSync(join(dir, "short.yaml"), "server: {retention: {failed: 0s}}\n");
    expect(await askJson("prune", "--config", "short.yaml")).toEqual({ jobs: 1 });
    expect((await library.jobs()).jobs.map(({ id }) => id)).not.toContain(a);
  });

  it("removes the files of what it deletes", async () => {
    const { ask, library, dir } = await openWhere("data", { env: { PERDURE_RETENTION_CANCELLED: "0s" } });
    const job = await library.submit("k");
    mkdirSync(join(dir, "artifacts", job.id, "1"), { recursive: true });
    writeFileSync(join(dir, "artifacts", job.id, "1", "stdout.log"), "x");
    await library.cancel(job.id);
    expect(await ask("prune")).toMatchObject({ stdout: "deleted 1 job\n" });
    expect(() => readFileSync(join(dir, "artifacts", job.id, "1", "stdout.log"))).toThrow("ENOENT");
  });

  it("is done by the server if there is one", async () => {
    const { ask, library, server } = await openWhere("server", { env: { PERDURE_RETENTION_CANCELLED: "0s" } });
    await library.cancel((await library.submit("k")).id);
    expect(await ask("prune")).toMatchObject({ code: 0, stdout: "deleted 0 jobs\n" });
    const token = await server?.token({ scopes: ["submit"] });
    const refused = await perdure(["prune", "--server", server?.url as string], { env: { PERDURE_TOKEN: token } });
    expect(refused).toMatchObject({ code: 1, stdout: "" });
  });
});

it("hostile names do not reach the terminal", async () => {
  const { ask, library } = await openWhere("data");
  await library.work([hopeless], { name: HOSTILE, labels: { a: "x" } });
  expect((await ask("workers")).stdout).toContain("a=x");
  expect((await ask("drain", HOSTILE)).code).toBe(0);
});
