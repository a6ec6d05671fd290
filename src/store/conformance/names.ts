/** Searches by name, action, reason and id prefix, and how much of the store such a search reads. */
import { expect, test } from "vitest";
import { IS_FULL } from "../../../test/tier.ts";
import { afterPrefix, SCAN } from "../find.ts";
import type { JobFilter } from "../store.ts";
import type { Bench } from "./bench.ts";
import { broke, done, INTERRUPTED, type JobParts, placeOf, reaped, SECOND, T0 } from "./kit.ts";

export function nameTests(bench: Bench): void {
  const ids = async (filter: JobFilter) => (await bench.store.find(filter)).jobs.map((job) => job.id);
  async function submitAll(...parts: JobParts[]): Promise<string[]> {
    const made: string[] = [];
    for (const [i, part] of parts.entries()) made.push(await bench.submit({ at: T0 + i, ...part }));
    return made;
  }

  test("a job has the name it was stored with, or else one derived from it", async () => {
    const shown = async (parts: JobParts) => (await bench.row(await bench.submit(parts))).name;
    expect(await shown({ name: "nightly backup ✓" })).toBe("nightly backup ✓");
    expect(await shown({ kind: "resize" })).toBe("resize");
    // As older versions stored them: without a name.
    expect(await shown({ kind: "exec", payload: '{"argv":["/bin/sh","x/run.sh"]}' })).toBe("sh run.sh");
    expect(await shown({ kind: "http", payload: '{"url":"https://a.test/b?c=d"}' })).toBe("GET a.test");
    expect(await shown({ annotations: '{"x/action":"core.echo"}' })).toBe("core.echo");
  });

  test("finds jobs by name: exactly, by a pattern, and by their kind if they have none", async () => {
    const [a, b, c, d, e] = await submitAll(
      { name: "backup-eu" },
      { name: "backup-us", namespace: "n2" },
      { kind: "backup" },
      { name: "Backup*[x]_%" },
      { name: "other", kind: "backup-eu" },
    );
    expect(await ids({ name: "backup-eu" })).toEqual([a]);
    expect(await ids({ name: "backup-*" })).toEqual([b, a]);
    expect(await ids({ name: "backup*", namespace: "default" })).toEqual([c, a]);
    expect(await ids({ name: "backup" })).toEqual([c]);
    expect(await ids({ name: "*_%" })).toEqual([d]);
    expect(await ids({ name: "?ackup*[[]*" })).toEqual([]);
    expect(await ids({ name: "?ackup*[x]*", order: "oldest" })).toEqual([d]);
    expect(await ids({ name: "*", order: "oldest" })).toEqual([a, b, c, d, e]);
    expect(await ids({ name: "none" })).toEqual([]);
    expect(await ids({ name: "' or 1=1 --" })).toEqual([]);
  });

  test("finds jobs by action, alone and with other conditions", async () => {
    const [a, b, c] = await submitAll(
      { action: "core.echo", name: "mine" },
      { action: "core.http", kind: "exec" },
      { action: "aws.s3", parent: null },
      {},
    );
    expect(await ids({ action: "core.echo" })).toEqual([a]);
    expect(await ids({ action: "core.*" })).toEqual([b, a]);
    expect(await ids({ action: "core.*", kind: ["exec"] })).toEqual([b]);
    expect(await ids({ action: "core.echo", name: "m*" })).toEqual([a]);
    expect(await ids({ action: "core.echo", name: "other" })).toEqual([]);
    expect(await ids({ action: "aws.s3", state: ["queued"] })).toEqual([c]);
  });

  test("finds dead letters by reason, and shows how their last attempts failed, without the stack", async () => {
    const { job: bad } = await bench.running({ name: "bad" });
    await bench.report(bad, broke("it broke\nbadly"));
    const { job: lost, session } = await bench.running({ retry: { maxAttempts: 1, workerLost: { maxRetries: 0 } } });
    await bench.endSession(session, T0 + SECOND, "gone");
    await bench.settleOne(reaped(placeOf(lost)), T0 + SECOND);
    const { job: fine } = await bench.running({});
    await bench.report(fine, done());
    const failed = await bench.store.find({ reason: ["exhausted"] });
    expect(failed.jobs.map(({ id }) => id)).toEqual([bad.id]);
    expect(failed.jobs[0]?.failure).toMatchObject({ kind: "error", message: "it broke\nbadly", stack: null });
    expect(await ids({ reason: ["lost", "exhausted"] })).toEqual([lost.id, bad.id]);
    expect(await ids({ reason: ["lost", "exhausted"], name: "b*" })).toEqual([bad.id]);
    expect(await ids({ reason: ["lost"], state: ["queued"] })).toEqual([]);
    expect(await ids({ reason: ["poison"] })).toEqual([]);
    expect((await bench.row(lost.id)).failure).toBeNull();
    expect((await bench.row(fine.id)).failure).toBeNull();
  });

  test("shows how the last attempt failed of a job that is being retried, and not of one that was redriven", async () => {
    const retry = { maxAttempts: 5, workerLost: { maxRetries: 5 }, backoff: { type: "none" } } as const;
    const { job, session } = await bench.running({ retry });
    expect((await bench.row(job.id)).failure).toBeNull();
    await bench.report(job, broke("first"));
    const shown = async () => {
      const found = await bench.store.find({ kind: ["work"] });
      const row = found.jobs.find(({ id }) => id === job.id);
      expect(row?.failure).toEqual((await bench.row(job.id)).failure);
      return [row?.state, row?.failure?.kind, row?.failure?.message, row?.failure?.stack];
    };
    expect(await shown()).toEqual(["queued", "error", "first", null]);
    const second = await bench.take(session);
    expect(await shown()).toEqual(["running", "error", "first", null]);
    await bench.report(second, INTERRUPTED);
    expect(await shown()).toEqual(["queued", "error", "first", null]);
    const third = await bench.take(session);
    await bench.endSession(session, T0 + SECOND, "gone");
    await bench.settleOne(reaped(placeOf(third)), T0 + SECOND);
    expect(await shown()).toEqual(["queued", "lost", "worker lost", null]);
    await bench.amend(job.id, { kind: "cancel", by: null }, T0 + SECOND);
    expect(await shown()).toEqual(["cancelled", undefined, undefined, undefined]);
    await bench.amend(job.id, { kind: "redrive", by: null }, T0 + SECOND);
    expect(await shown()).toEqual(["queued", undefined, undefined, undefined]);
    const another = await bench.open();
    await bench.report(await bench.take(another, T0 + 2 * SECOND), INTERRUPTED);
    expect(await shown()).toEqual(["queued", undefined, undefined, undefined]);
    await bench.report(await bench.take(another, T0 + 2 * SECOND), broke("anew"));
    expect(await shown()).toEqual(["queued", "error", "anew", null]);
  });

  test("finds a job by a prefix of its id, in its namespace", async () => {
    const [a, b] = (await submitAll({}, { namespace: "n2" })) as [string, string];
    expect(await ids({ idPrefix: a })).toEqual([a]);
    expect(await ids({ idPrefix: a.slice(0, 10) })).toEqual([b, a]);
    expect(await ids({ idPrefix: a.slice(0, 10), namespace: "n2" })).toEqual([b]);
    expect(await ids({ idPrefix: "job_7zzzz" })).toEqual([]);
    expect(afterPrefix("job_0z")).toBe("job_0{");
  });

  test.runIf(IS_FULL)("a search by a pattern checks a bounded number of jobs, and continues from there", async () => {
    const wanted = await bench.submit({ name: "needle" });
    await bench.insert(Array.from({ length: SCAN }, () => ({})));
    const first = await bench.store.find({ name: "need*" });
    expect(first.jobs).toEqual([]);
    expect(first.next).not.toBeNull();
    const second = await bench.store.find({ name: "need*", cursor: first.next as string });
    expect(second.jobs.map(({ id }) => id)).toEqual([wanted]);
    expect(second.next).toBeNull();
    // By its index, at once.
    expect(await ids({ name: "needle" })).toEqual([wanted]);
  });
}
