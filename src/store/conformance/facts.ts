/** Reading jobs without payloads and results, which may be megabytes. */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { broke, done, INTERRUPTED, jobId, SECOND, T0, TWICE } from "./kit.ts";

const BODIES = ["payload", "result", "progress", "annotations"];

export function factTests(bench: Bench): void {
  test("the facts of jobs are returned in the requested order, without bodies", async () => {
    const { job: over } = await bench.running({ payload: '"heavy"', annotations: '{"a":"b"}' });
    await bench.report(over, done('"heavy too"'));
    const child = await bench.submit({ kind: "child", namespace: "other", tags: ["t"] });
    const [first, nobody, second] = await bench.store.facts([child, jobId(), over.id]);
    expect(nobody).toBeNull();
    expect(first).toMatchObject({ id: child, kind: "child", namespace: "other", state: "queued", tags: ["t"] });
    expect(second).toMatchObject({ id: over.id, state: "succeeded", attempt: 1, startedAt: T0, finishedAt: T0 });
    for (const facts of [first, second]) for (const name of BODIES) expect(facts).not.toHaveProperty(name);
    expect(await bench.store.facts([])).toEqual([]);
  });

  test("the last failures of jobs are returned in the requested order, each of the last attempt", async () => {
    const { job: twice, session } = await bench.running({ retry: TWICE });
    await bench.report(twice, broke("first"));
    await bench.report(await bench.take(session, T0 + SECOND), broke("second"), T0 + SECOND);
    const { job: over } = await bench.running();
    await bench.report(over, done());
    const { job: handed, session: other } = await bench.running({ retry: TWICE, kind: "handed" });
    await bench.report(handed, broke("before"));
    await bench.report(await bench.take(other, T0 + SECOND), INTERRUPTED, T0 + SECOND);
    const ids = [over.id, twice.id, jobId(), handed.id, await bench.submit()];
    expect(await bench.store.children.failures(ids)).toMatchObject([null, { message: "second" }, null, null, null]);
    for (const [i, failure] of (await bench.store.children.failures(ids)).entries()) {
      expect(failure).toEqual((await bench.store.attempts(ids[i] as string)).at(-1)?.failure ?? null);
    }
    expect(await bench.store.children.failures([])).toEqual([]);
  });

  test("commands are answered without bodies", async () => {
    const id = await bench.submit({ annotations: '{"a":"b"}' });
    for (const status of ["applied", "noop"]) {
      const answer = await bench.amend(id, { kind: "cancel" });
      expect(answer).toMatchObject({ status, job: { id, state: "cancelled", cancelRequestedAt: T0 } });
      for (const name of BODIES) expect((answer as { job: unknown }).job).not.toHaveProperty(name);
    }
  });
}
