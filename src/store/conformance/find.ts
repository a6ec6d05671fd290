/** Searching: every filter, both orders, and cursors that are valid only for their query (S29). */
import { expect, test } from "vitest";
import type { JobFilter } from "../store.ts";
import type { Bench } from "./bench.ts";
import { broke, done, type JobParts, SECOND, T0 } from "./kit.ts";

export function findTests(bench: Bench): void {
  const ids = async (filter: JobFilter) => (await bench.store.find(filter)).jobs.map((job) => job.id);
  async function submitAll(...parts: JobParts[]): Promise<string[]> {
    const made: string[] = [];
    for (const [i, part] of parts.entries()) made.push(await bench.submit({ at: T0 + i, ...part }));
    return made;
  }
  async function walk(filter: JobFilter, limit: number): Promise<string[]> {
    const found: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await bench.store.find({ ...filter, limit, ...(cursor === undefined ? {} : { cursor }) });
      expect(page.jobs.length).toBeLessThanOrEqual(limit);
      found.push(...page.jobs.map((job) => job.id));
      if (page.next === null) return found;
      expect(page.jobs).toHaveLength(limit);
      expect(page.next).not.toBe(cursor);
      cursor = page.next;
    }
  }

  test("finds all, newest first by default", async () => {
    const [a, b, c] = await submitAll({}, { namespace: "b" }, { queue: "c" });
    expect(await ids({})).toEqual([c, b, a]);
    expect(await ids({ order: "newest" })).toEqual([c, b, a]);
    expect(await ids({ order: "oldest" })).toEqual([a, b, c]);
    expect(await ids({ limit: 2 })).toEqual([c, b]);
  });

  test("by namespace, kind and queue, one or several, and all at once", async () => {
    const [a, b, c, d] = await submitAll(
      { kind: "x", queue: "q1" },
      { kind: "y", queue: "q1" },
      { kind: "x", queue: "q2", labels: { gpu: "1" } },
      { kind: "x", queue: "q1", namespace: "n2" },
    );
    expect(await ids({ kind: ["x"] })).toEqual([d, c, a]);
    expect(await ids({ kind: ["x"], namespace: "default" })).toEqual([c, a]);
    expect(await ids({ queue: ["q2"] })).toEqual([c]);
    expect(await ids({ queue: ["q1", "q2"], kind: ["x", "y"], namespace: "default" })).toEqual([c, b, a]);
    expect(await ids({ kind: ["z"] })).toEqual([]);
    expect(await ids({ kind: [] })).toEqual([]);
    expect(await ids({ namespace: "n3" })).toEqual([]);
  });

  test("by state, and by dead letter", async () => {
    const session = await bench.open();
    const [ok, bad, thrown] = await submitAll({}, {}, {});
    const [first, second, third] = await bench.claim(session, 3, T0 + SECOND);
    await bench.report(first as NonNullable<typeof first>, done());
    await bench.report(second as NonNullable<typeof second>, broke());
    await bench.report(third as NonNullable<typeof third>, broke());
    await bench.amend(thrown as string, { kind: "discard" });
    const waits = await bench.submit({ at: T0 + SECOND });
    expect(await ids({ state: ["succeeded"] })).toEqual([ok]);
    expect(await ids({ state: ["failed", "queued"] })).toEqual([waits, thrown, bad]);
    expect(await ids({ state: [] })).toEqual([]);
    expect(await ids({ deadLetter: true })).toEqual([bad]);
    expect(await ids({ deadLetter: false })).toHaveLength(4);
    expect(await ids({ deadLetter: true, state: ["queued"] })).toEqual([]);
  });

  test("by tag, by key, and by key in a namespace", async () => {
    const [a, b, c] = await submitAll(
      { tags: ["red", "big"], key: "k" },
      { tags: ["red"], key: "k", namespace: "n2" },
      { tags: ["rédé ✓"], key: "k2" },
    );
    expect(await ids({ tag: "red" })).toEqual([b, a]);
    expect(await ids({ tag: "big" })).toEqual([a]);
    expect(await ids({ tag: "rédé ✓" })).toEqual([c]);
    expect(await ids({ tag: "re" })).toEqual([]);
    expect(await ids({ key: "k" })).toEqual([b, a]);
    expect(await ids({ key: "k", namespace: "n2" })).toEqual([b]);
    expect(await ids({ key: "k2", tag: "red" })).toEqual([]);
  });

  test("by the time of submission: from, and before", async () => {
    const [, b, c] = await submitAll({}, {}, {}, {});
    expect(await ids({ submittedAfter: T0 + 1, submittedBefore: T0 + 3 })).toEqual([c, b]);
    expect(await ids({ submittedBefore: T0 })).toEqual([]);
  });

  test("returns jobs as they are read one by one", async () => {
    const { job } = await bench.running({ tags: ["t"] });
    await bench.report(job, done('{"a":1}'));
    const { jobs } = await bench.store.find({});
    expect(jobs).toEqual([await bench.row(job.id)]);
    expect(jobs[0]).toMatchObject({ payload: '{"n":1}', result: '{"a":1}' });
  });

  test("pages through all jobs, each once, in both orders and any page size", async () => {
    const made = await submitAll(...Array.from({ length: 23 }, (_, i) => ({ kind: i % 3 === 0 ? "x" : "y" })));
    const xs = made.filter((_, i) => i % 3 === 0);
    for (const limit of [1, 4, 8, 23, 100]) {
      expect(await walk({ order: "oldest" }, limit)).toEqual(made);
      expect(await walk({ order: "newest" }, limit)).toEqual(made.toReversed());
      expect(await walk({ order: "oldest", kind: ["x"] }, limit)).toEqual(xs);
    }
  });

  test("paging neither repeats nor misses jobs that existed at its start, while more arrive", async () => {
    const made = await submitAll(...Array.from({ length: 9 }, () => ({})));
    const first = await bench.store.find({ order: "newest", limit: 4 });
    await submitAll({}, {});
    const rest = await bench.store.find({ order: "newest", limit: 100, cursor: first.next as string });
    expect([...first.jobs, ...rest.jobs].map((job) => job.id)).toEqual(made.toReversed());
  });

  test("ends without a cursor when the last page is exactly full", async () => {
    await submitAll({}, {});
    expect((await bench.store.find({ limit: 2 })).next).toBeNull();
    expect((await bench.store.find({ kind: ["none"] })).next).toBeNull();
  });

  test("returns at least one job and at most a page, whatever the limit", async () => {
    await bench.insert(Array.from({ length: 1_200 }, () => ({})));
    expect((await bench.store.find({})).jobs).toHaveLength(100);
    const most = await bench.store.find({ limit: 1_000_000 });
    expect(most.jobs).toHaveLength(1_000);
    expect(most.next).not.toBeNull();
    for (const limit of [0, -1, -1_000]) expect((await bench.store.find({ limit })).jobs).toHaveLength(1);
  });

  test("ends a page with the job that exceeds its characters, and continues after it", async () => {
    const { job } = await bench.running({ payload: '"p"' });
    await bench.report(job, done(JSON.stringify("r".repeat(900))));
    const large = { payload: JSON.stringify("p".repeat(500)), tags: ["large"] };
    const made = [job.id, ...(await submitAll(large, large, large))] as const;
    const pages = async (filter: JobFilter) => {
      const found: string[][] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await bench.store.find({ ...filter, ...(cursor === undefined ? {} : { cursor }) });
        found.push(page.jobs.map(({ id }) => id));
        if (page.next === null) return found;
        cursor = page.next;
      }
    };
    const [a, b, c, d] = made;
    expect(await pages({ order: "oldest", chars: 800 })).toEqual([[a], [b, c], [d]]);
    expect(await pages({ order: "newest", chars: 800 })).toEqual([
      [d, c],
      [b, a],
    ]);
    expect(await pages({ order: "oldest", chars: 1 })).toEqual([[a], [b], [c], [d]]);
    expect(await pages({ order: "oldest", chars: 1, tag: "large" })).toEqual([[b], [c], [d]]);
    expect(await pages({ order: "oldest", chars: 800, state: ["queued", "running"] })).toEqual([[b, c], [d]]);
    expect(await pages({ order: "oldest", chars: 800, limit: 1 })).toEqual([[a], [b], [c], [d]]);
    expect(await pages({ order: "oldest" })).toEqual([[...made]]);
  });

  test("refuses a cursor of another query", async () => {
    await submitAll({}, {}, {});
    const { next } = await bench.store.find({ limit: 1, order: "newest" });
    const cursor = next as string;
    const others: JobFilter[] = [
      { order: "oldest" },
      { order: "newest", kind: ["work"] },
      { order: "newest", tag: "a" },
    ];
    for (const filter of others) {
      await expect(bench.store.find({ ...filter, cursor })).rejects.toMatchObject({ code: "invalid_cursor" });
    }
    expect((await bench.store.find({ order: "newest", limit: 2, cursor })).jobs).toHaveLength(2);
  });

  test("refuses a cursor of another store, a forged one and nonsense", async () => {
    await submitAll({}, {}, {});
    const { next } = await bench.store.find({ limit: 1 });
    const cursor = next as string;
    const elsewhere = await bench.another();
    await expect(elsewhere.find({ limit: 1, cursor })).rejects.toMatchObject({ code: "invalid_cursor" });
    const text = Buffer.from(cursor, "base64url").toString("latin1");
    const forged = [text.replace(/^\d+/, "999999"), text.slice(0, -1), `9${text}`, text.toUpperCase(), "", "..", "0"];
    const cursors = [
      ...forged.map((raw) => Buffer.from(raw).toString("base64url")),
      "💥",
      "'; drop table job; --",
      " ",
    ];
    for (const bad of cursors) {
      await expect(bench.store.find({ limit: 1, cursor: bad })).rejects.toMatchObject({ code: "invalid_cursor" });
    }
  });

  test("treats hostile text as text", async () => {
    const nasty = "' or 1=1 --";
    const id = await bench.submit({ queue: nasty, kind: nasty, namespace: nasty, key: nasty, tags: [nasty] });
    await bench.submit();
    const all = { queue: [nasty], kind: [nasty], namespace: nasty, key: nasty, tag: nasty };
    expect(await ids(all)).toEqual([id]);
    for (const [name, value] of Object.entries(all)) expect(await ids({ [name]: value })).toEqual([id]);
  });
}
