/** One warning line per reclaim of an OPAL job. */
import { expect, it, onTestFinished } from "vitest";
import type { JobEvent } from "../../src/core/job/event.ts";
import { resolvePolicy } from "../../src/core/policy/resolve-policy.ts";
import { opalJobPolicy, opalRetry } from "../../src/dialects/opal/retry.ts";
import { ReclaimLog } from "../../src/dialects/opal/server/reclaim.ts";
import { opalPolicy, opalSettings } from "../../src/dialects/opal/settings.ts";
import { logTime } from "../../src/dialects/opal/worker-log.ts";
import { type OpenedEngine, openEngine } from "../../src/embedded/open-engine.ts";
import type { ServerLog } from "../../src/server/log.ts";
import { createLog } from "../../src/server/log.ts";
import { directoryBlobs } from "../../src/store/directory-blobs.ts";
import type { Store } from "../../src/store/store.ts";

type Reads = Pick<Store, "jobs" | "history">;

async function start(readsOf: (store: Store) => Reads = (store) => store) {
  const lines: string[] = [];
  /** The lines of the server's log, as JSON and as text. */
  const [json, text]: [string[], string[]] = [[], []];
  const forms = [
    createLog({ write: (line) => void json.push(line), now: Date.now }),
    createLog({ write: (line) => void text.push(line), now: Date.now, form: "text" }),
  ];
  let onLine = () => {};
  const log: ServerLog = (level, message, fields) => {
    for (const form of forms) form(level, message, fields);
    lines.push(`${level}: ${message}`);
    onLine();
  };
  const reclaims = new ReclaimLog(log);
  const opened: OpenedEngine = await openEngine({
    ...{ url: ":memory:", schema: undefined, connections: undefined, log: () => {} },
    outputs: () => directoryBlobs("/nonexistent"),
    observer: reclaims,
  });
  onTestFinished(() => opened.close());
  const { engine } = opened;
  reclaims.start(readsOf(engine.store));
  const policy = resolvePolicy(opalPolicy(opalSettings({})));
  const session = {
    namespace: "default",
    name: "w",
    host: "h",
    pid: 1,
    kinds: ["exec"],
    queues: null,
    labels: {},
    slots: 9,
  };

  return {
    ...{ engine, lines, json, text },
    async submit(key: string, tags: readonly string[], own = policy): Promise<string> {
      const [answer] = await engine.submit([{ kind: "exec", payload: "null", policy: own, key, tags }]);
      if (answer?.status !== "ok") throw new Error("not submitted");
      return answer.id;
    },
    /** Claims due jobs with a worker that returns them when it stops. */
    async handBack(): Promise<void> {
      const id = await engine.openSession(session);
      const { jobs } = await engine.claim(id, { limit: 1, waitMs: 0, claimId: null });
      const [{ id: jobId, attempt, token }] = jobs as [(typeof jobs)[number]];
      const from = { kind: "worker", token, reportId: `${jobId}-${attempt}` } as const;
      await engine.report([{ jobId, attempt, from, outcome: { kind: "interrupted" }, usage: null, log: null }]);
      await engine.closeSession(id);
    },
    /** Claims all due jobs with a worker that is then lost; resolves when `count` lines have been logged since. */
    async lose(count: number, before: () => Promise<unknown> = async () => {}): Promise<void> {
      const id = await engine.openSession(session);
      await engine.claim(id, { limit: 9, waitMs: 0, claimId: null });
      await before();
      await engine.closeSession(id);
      const wanted = lines.length + count;
      const all = new Promise<void>((resolve) => {
        onLine = () => lines.length >= wanted && resolve();
        onLine();
      });
      await engine.reap();
      await all;
    },
  };
}

it("is written for each attempt that was lost, with the backoff or the end", async () => {
  const { engine, submit, lose, lines } = await start();
  const one = await submit("opal:job_1", ["opal"]);
  await submit("opal:job_2", ["opal", "other"]);
  await submit("mine", ["mine"]);
  await submit("opal:untagged", []);
  await lose(2);
  expect(lines.sort()).toEqual([
    "warn: [Lease] ♻️ Reclaiming job job_1 (Attempt 1/2) -> QUEUED (backoff=8s)",
    "warn: [Lease] ♻️ Reclaiming job job_2 (Attempt 1/2) -> QUEUED (backoff=8s)",
  ]);
  await engine.command(one, { kind: "retry", by: null });
  await lose(1);
  expect(lines.at(-1)).toBe("warn: [Lease] ♻️ Reclaiming job job_1 (Attempt 2/2) -> FAILED (max_retries_exceeded_a2)");
  await engine.reap();
  expect(lines).toHaveLength(3);
});

it('has the keys "timestamp", "level", "worker" and "event" of the log sample, and Perdure\'s own beside them', async () => {
  const { engine, submit, lose, json, text } = await start();
  const id = await submit("opal:job_1", ["opal"]);
  await lose(1);
  const events = (await engine.store.history(id))?.events ?? [];
  const { at, data } = events.at(-1) as JobEvent & { readonly data: { readonly by: string } };
  const event = "[Lease] ♻️ Reclaiming job job_1 (Attempt 1/2) -> QUEUED (backoff=8s)";
  const [record] = json.map((line) => JSON.parse(line));
  expect(Object.keys(record).slice(0, 4)).toEqual(["timestamp", "level", "worker", "event"]);
  expect(record).toMatchObject({
    ...{ timestamp: logTime(at), level: "WARNING", worker: data.by, event },
    ...{ at: expect.stringMatching(/Z$/), message: event, jobId: id, why: expect.any(String) },
  });
  expect(record.timestamp).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}$/); // "2026-02-05 17:08:53,260"
  expect(text[0]).toContain(`Z warn  ${event} jobId=${id} `); // the text form has the usual format
  expect(text[0]).not.toContain("WARNING");
});

it("counts attempts as the limit does: from 1 again after a redrive, and no returned ones", async () => {
  const { engine, submit, lose, handBack, lines } = await start();
  const id = await submit("opal:job_1", ["opal"]);
  for (const chapter of [1, 2]) {
    await handBack();
    await lose(1);
    await engine.command(id, { kind: "retry", by: null });
    await lose(1);
    expect(lines.slice(-2)).toEqual([
      "warn: [Lease] ♻️ Reclaiming job job_1 (Attempt 1/2) -> QUEUED (backoff=8s)",
      "warn: [Lease] ♻️ Reclaiming job job_1 (Attempt 2/2) -> FAILED (max_retries_exceeded_a2)",
    ]);
    if (chapter === 1) await engine.command(id, { kind: "redrive", by: null });
  }
});

it("has the maximum and the backoff of the job's own retry", async () => {
  const { engine, submit, lose, lines } = await start();
  const retry = opalRetry({ max_retries: 3, backoff: { initial: 2, factor: 3 } }, "retry");
  const id = await submit("opal:job_1", ["opal"], resolvePolicy(opalJobPolicy(opalSettings({}), retry)));
  for (let attempt = 1; attempt <= 3; attempt++) {
    await lose(1);
    if (attempt < 3) await engine.command(id, { kind: "retry", by: null });
  }
  expect(lines).toEqual([
    "warn: [Lease] ♻️ Reclaiming job job_1 (Attempt 1/3) -> QUEUED (backoff=2s)",
    "warn: [Lease] ♻️ Reclaiming job job_1 (Attempt 2/3) -> QUEUED (backoff=6s)",
    "warn: [Lease] ♻️ Reclaiming job job_1 (Attempt 3/3) -> FAILED (max_retries_exceeded_a2)",
  ]);
});

it("reports a cancellation, and no exceeded limit", async () => {
  const { engine, submit, lose, lines } = await start();
  const id = await submit("opal:job_1", ["opal"]);
  await lose(1, () => engine.command(id, { kind: "cancel", by: null }));
  expect(lines).toEqual(["warn: [Lease] ♻️ Reclaiming job job_1 (Attempt 1/2) -> FAILED (cancelled)"]);
});

it("logs a warning if the jobs cannot be read", async () => {
  const away = { jobs: () => Promise.reject(new Error("away")), history: () => Promise.reject(new Error("away")) };
  const { submit, lose, lines } = await start(() => away);
  await submit("opal:job_1", ["opal"]);
  await lose(1);
  expect(lines).toEqual(["warn: cannot read reclaimed jobs for OPAL's log"]);
});
