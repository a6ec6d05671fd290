/** Long lists are returned in pages: attempts of a job, events, and sessions. */
import { expect, test } from "vitest";
import { ATTEMPT_LOG, ATTEMPTS_CHARS, SESSIONS_PAGE } from "../store.ts";
import type { Bench } from "./bench.ts";
import { done, LEASE, newSession, SECOND, T0 } from "./kit.ts";

const AGAIN = { maxAttempts: 100, backoff: { type: "none" } } as const;

export function pageTests(bench: Bench): void {
  /** A job with a number of failed attempts, each with this message and log. */
  async function tried(times: number, log: string | null = null) {
    const id = await bench.submit({ retry: AGAIN });
    const session = await bench.open();
    for (let i = 1; i <= times; i++) {
      const job = await bench.take(session, T0 + i);
      const failure = { kind: "failed", failure: { ...LONG, message: `${i}` } } as never;
      await bench.report(job, failure, T0 + i, log === null ? {} : { log });
    }
    return { id, session };
  }
  const LONG = {
    ...{ kind: "error", class: null, name: "Error", message: "", code: null, exitCode: null, signal: null },
    ...{ status: null, retryAfterMs: null, stack: null },
  };
  const numbers = async (id: string, page?: { after?: number; limit?: number }) =>
    (await bench.store.attempts(id, page)).map(({ attempt }) => attempt);

  test("attempts are read in pages of bounded size", async () => {
    const { id } = await tried(7);
    expect(await numbers(id)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(await numbers(id, { limit: 3 })).toEqual([1, 2, 3]);
    expect(await numbers(id, { after: 3, limit: 3 })).toEqual([4, 5, 6]);
    expect(await numbers(id, { after: 6 })).toEqual([7]);
    expect(await numbers(id, { after: 7 })).toEqual([]);
  });

  test("attempts show the beginning of their log", async () => {
    const { id } = await tried(1, "x".repeat(ATTEMPT_LOG + 10));
    const [row] = await bench.store.attempts(id);
    expect(row?.log).toHaveLength(ATTEMPT_LOG);
    expect((await bench.store.log(id, 1))?.text).toHaveLength(ATTEMPT_LOG + 10);
  });

  test("a page of attempts ends with the one that fills it", async () => {
    const session = await bench.open();
    const id = await bench.submit({ retry: AGAIN });
    const result = JSON.stringify("r".repeat(ATTEMPTS_CHARS / 2));
    // Only the last attempt of a chapter can have a result: the job is redriven after each.
    for (let i = 1; i <= 3; i++) {
      const job = await bench.take(session, T0 + i);
      const stack = "s".repeat(ATTEMPTS_CHARS / 2);
      if (i < 3) await bench.report(job, { kind: "failed", failure: { ...LONG, stack } } as never, T0 + i);
      else await bench.report(job, done(result), T0 + i);
    }
    expect(await numbers(id)).toEqual([1, 2]);
    expect(await numbers(id, { after: 2 })).toEqual([3]);
  });

  test("a page of events ends with the one that fills it, and returns where to continue", async () => {
    const { id } = await tried(4);
    const read = async (which: object, chars: number) => {
      const seqs: number[] = [];
      let pages = 0;
      for (let after = 0; ; pages++) {
        const page = await bench.store.events.page({ after, limit: 100, chars, ...which });
        seqs.push(...page.events.map(({ seq }) => seq));
        if (page.isEnd) return { seqs, pages };
        after = page.upTo;
      }
    };
    for (const which of [{}, { jobId: id }, { namespace: "default" }]) {
      const whole = await read(which, 1_000_000);
      expect(whole.pages).toBe(0);
      const cut = await read(which, 1); // each fills a page
      expect(cut.seqs).toEqual(whole.seqs);
      expect(cut.pages).toBe(whole.seqs.length);
      expect((await read(which, 300)).seqs).toEqual(whole.seqs);
    }
    expect((await bench.store.events.page({ jobId: id, after: 0, limit: -1, chars: 1 })).events).toHaveLength(9);
  });

  test("sessions are read in pages, of one namespace or of all", async () => {
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.push(await bench.open({ namespace: i === 2 ? "other" : "default" }));
    const read = async (query: object) => (await bench.store.sessions.list(query)).map(({ id }) => id);
    expect(await read({})).toEqual(ids);
    expect(await read({ limit: 2 })).toEqual(ids.slice(0, 2));
    expect(await read({ after: ids[1], limit: 2 })).toEqual(ids.slice(2, 4));
    const own = ids.filter((_, i) => i !== 2);
    expect(await read({ namespace: "default", after: own[0], limit: 2 })).toEqual(own.slice(1, 3));
    expect(await read({ limit: SESSIONS_PAGE * 10, after: ids[4] })).toEqual([]);
    expect(await bench.store.sessions.get(ids[2] as string)).toMatchObject({ id: ids[2], namespace: "other" });
    expect(await bench.store.sessions.get("ses_none")).toBeNull();
    await bench.endSession(ids[0] as string, T0 + 5);
    expect(await read({ endedSince: T0 + 5 })).toEqual(ids);
    expect(await read({ endedSince: T0 + 6, limit: 2 })).toEqual(ids.slice(1, 3));
    expect(await bench.store.sessions.names([ids[0] as string, "ses_none"])).toEqual(new Map([[ids[0], "worker-1"]]));
  });

  test("a session is refused if its owner has the maximum of live ones; ended ones do not count", async () => {
    const open = async (owner: string | null, now = T0) => {
      const session = newSession({ owner, most: 2 });
      return (await bench.store.sessions.open(session, now)) ? session.id : null;
    };
    const first = (await open("x")) as string;
    expect(first).not.toBeNull();
    expect(await open("x")).not.toBeNull();
    expect(await open("x")).toBeNull();
    expect(await open("y")).not.toBeNull();
    expect(await open(null)).not.toBeNull();
    await bench.endSession(first, T0 + 1);
    expect(await open("x", T0 + 1)).not.toBeNull();
    expect(await open("x", T0 + 1)).toBeNull();
    // Those silent for a lease count as ended, reaped or not.
    expect(await open("x", T0 + LEASE + SECOND)).not.toBeNull();
    expect(await bench.store.sessions.list()).toHaveLength(6);
  });
}
