import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { openBench, openSession } from "../../test/kit.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import { directoryBlobs } from "../store/directory-blobs.ts";

const LEASE = 15_000;

async function bench() {
  const dir = mkdtempSync(join(tmpdir(), "perdure-verdict-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const outputs = directoryBlobs(dir);
  const made = await openBench({ outputs, services: false });
  const leave = (jobId: string, name: string, text: string) =>
    outputs.write(
      jobId,
      1,
      name,
      0,
      (async function* () {
        yield Buffer.from(text);
      })(),
    );
  /** An attempt of a worker that never reports again. */
  const begin = async (kind = "exec") => {
    const payload = kind === "exec" ? { argv: ["true"] } : null;
    const id = await made.submit(kind, { payload: JSON.stringify(payload) });
    const session = await openSession(made, [kind]);
    const { jobs } = await made.engine.claim(session, { limit: 1 });
    expect(jobs).toHaveLength(1);
    return { id, session, job: jobs[0] };
  };
  /** The reaper is called by hand: it reads files, which no virtual clock waits for. */
  const passes = async (ms: number) => {
    for (let at = 0; at < ms; at += 1_000) {
      await made.engine.reap();
      await made.advance(1_000);
    }
    await made.engine.reap();
  };
  return { ...made, leave, begin, passes };
}

describe("a command whose worker was lost", () => {
  it.each([
    ["completed", '{"status": "completed", "output": {"n": 1}}', { state: "succeeded", reason: null }],
    ["failed", '{"status": "failed", "reason": "no such account"}', { state: "failed", reason: "rejected" }],
    ["over its budget", '{"status": "budget_exceeded"}', { state: "failed", reason: "budget" }],
  ])("is settled by a verdict that was complete: %s", async (_, text, expected) => {
    const { leave, begin, passes, job, attempts } = await bench();
    const { id } = await begin();
    await leave(id, "stdout.log", "out\n");
    await leave(id, "artifacts/f", "artifact");
    await leave(id, "result.json", text);
    await passes(LEASE + 2_000);
    expect(await job(id)).toMatchObject({ ...expected, attempt: 1, losses: 0 });
    const [row] = await attempts(id);
    expect(row?.log).toContain("worker lost; settled by its complete result.json");
    if (expected.state !== "succeeded") return;
    expect(JSON.parse(row?.result ?? "null")).toMatchObject({
      ...{ exitCode: null, output: { n: 1 }, outputs: [{ name: "f", size: 8 }], stdout: { bytes: 4, dropped: 0 } },
    });
  });

  it.each([
    ["half of one", '{"status": "completed", "output": {"n"'],
    ["an empty file", ""],
    ["output without a status", '{"n": 1}'],
    ["another status", '{"status": "done"}'],
    ["children that are not a list of children", '{"status": "waiting", "children": []}'],
    ["too much", `{"status": "completed", "output": "${"x".repeat(800_000)}"}`],
  ])("is lost without a verdict: %s", async (_, text) => {
    const { leave, begin, passes, job } = await bench();
    const { id } = await begin();
    await leave(id, "result.json", text);
    await passes(LEASE + 2_000);
    expect(await job(id)).toMatchObject({ state: "queued", attempt: 1, losses: 1 });
  });

  it("and was to wait for its children is blocked until they have ended", async () => {
    const { leave, begin, passes, job, engine } = await bench();
    const { id } = await begin();
    const item = { kind: "other", payload: "null", policy: resolvePolicy() };
    const child = await engine.submitChild({ jobId: id, attempt: 1, namespace: "default" }, item);
    await leave(id, "result.json", JSON.stringify({ status: "waiting", children: [child.id] }));
    await passes(LEASE + 2_000);
    expect(await job(id)).toMatchObject({ state: "blocked", losses: 0 });
  });

  it("is lost if the file means nothing: the job is of another kind", async () => {
    const { leave, begin, passes, job } = await bench();
    const { id } = await begin("k");
    await leave(id, "result.json", '{"status": "completed"}');
    await passes(LEASE + 2_000);
    expect(await job(id)).toMatchObject({ state: "queued", losses: 1 });
  });

  it("ends once: its own report comes too late, and before its lease has expired the verdict decides nothing", async () => {
    const { leave, begin, passes, job, engine } = await bench();
    const { id, job: claimed } = await begin();
    await leave(id, "result.json", '{"status": "completed"}');
    await passes(LEASE - 1_000);
    expect(await job(id)).toMatchObject({ state: "running" });
    await passes(3_000);
    expect(await job(id)).toMatchObject({ state: "succeeded" });
    const from = { kind: "worker", token: claimed?.token ?? "", reportId: "r1" } as const;
    const [answer] = await engine.report([
      { jobId: id, attempt: 1, from, outcome: { kind: "interrupted" }, usage: null, log: null },
    ]);
    expect(answer).toEqual({ status: "stale", recorded: "completed" });
    expect(await job(id)).toMatchObject({ state: "succeeded", attempt: 1 });
  });
});
