/** Jobs without budgets pay nothing for them: counts the statements of a claim, a renewal and an end. */
import pg from "pg";
import { afterEach, expect, test, vi } from "vitest";
import { newSchema } from "../../../test/postgres/kit.ts";
import { DEFAULT_PRIORITY } from "../../core/job/lifecycle.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { decideAt, done, newJob, newSession, placeOf, reportOf, T0, usageOf } from "../conformance/kit.ts";
import { ClaimCursors } from "./claim-cursors.ts";
import { openPostgres } from "./open.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

test("a job without a budget above it is claimed by a single statement; one with a budget takes more", async () => {
  const newSecret = () => "a secret of the tests of what budgets cost";
  const { url } = newSchema("budget_cost");
  const store = await openPostgres({ url, random: Math.random, clock: systemClock, newSecret, connections: 1 });
  const session = newSession();
  await store.sessions.open(session, T0);
  const statements: string[] = [];
  const query = pg.Client.prototype.query;
  vi.spyOn(pg.Client.prototype, "query").mockImplementation(function (this: pg.Client, ...given: unknown[]) {
    const [asked] = given as [string | { text: string }];
    const text = (typeof asked === "string" ? asked : asked.text).trim().toLowerCase();
    if (!/^(listen|notify|select pg_notify|select .*statement_timestamp)/.test(text)) statements.push(text);
    return (query as (...all: unknown[]) => unknown).apply(this, given) as never;
  });
  const life = async (retry: Parameters<typeof newJob>[0]) => {
    await store.insert([newJob(retry)], T0);
    statements.length = 0;
    const [answer] = await store.claim([{ session: session.id, limit: 1, claimId: null }], T0);
    const [job] = answer?.jobs ?? [];
    const claimed = statements.length;
    const held = [{ ...placeOf(job as never), usage: usageOf(1) }];
    await store.renew([{ session: session.id, held }], T0 + 1);
    const renewed = statements.length - claimed;
    await store.settle([reportOf(job as never, done(), { usage: null })], T0 + 2, decideAt(T0 + 2));
    return { claimed, renewed, ended: statements.length - claimed - renewed };
  };
  await life({}); // one-time reads happen here
  const plain = await life({});
  expect(plain).toMatchObject({ claimed: 1, renewed: 3 });
  const taken = vi.spyOn(ClaimCursors.prototype, "taken");
  const covered = await life({ retry: { budget: { costUsd: 1 } } });
  // The next claim starts where this one found it, as after any other.
  expect(taken).toHaveBeenCalledWith(expect.any(Number), DEFAULT_PRIORITY, T0, T0);
  expect(covered.claimed).toBeGreaterThan(plain.claimed);
  expect(covered.ended).toBeGreaterThan(plain.ended);
  await store.close();
});
