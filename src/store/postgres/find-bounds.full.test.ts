/** Searches among very many jobs: a call checks a bounded number, and jobs that wait or run are found at once. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ask } from "../../../test/postgres/client.ts";
import { newSchema } from "../../../test/postgres/kit.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { decideAt, done, newJob, newSession, reportOf, T0 } from "../conformance/kit.ts";
import { MAX_CHECKED } from "../find.ts";
import type { JobFilter, Store } from "../store.ts";
import { openPostgres } from "./open.ts";

const { url, schema } = newSchema("find_bounds");
const COPIES = 3 * MAX_CHECKED;
let store: Store;
const rare = newJob({ kind: "rare", name: "needle", at: T0 });

beforeAll(async () => {
  const newSecret = () => "a secret of the tests of bounded searches";
  store = await openPostgres({ url, random: Math.random, clock: systemClock, newSecret, connections: 4 });
  const session = newSession();
  await store.sessions.open(session, T0);
  await store.insert([newJob()], T0);
  const [claimed] = await store.claim([{ session: session.id, limit: 1, claimId: null }], T0 + 1);
  const [job] = claimed?.jobs ?? [];
  await store.settle([reportOf(job as never, done())], T0 + 2, decideAt(T0 + 2));
  await store.insert([rare], T0 + 3);
  // Succeeded jobs of one kind, newer than the only job that waits.
  const copy = (table: string, column: string, more: string) =>
    ask(
      url,
      `insert into ${schema}.${table}
       select p.* from ${schema}.${table} r, generate_series(1, ${COPIES}) g,
         lateral jsonb_populate_record(r, jsonb_build_object('${column}', 1000000 + g${more})) p
       where r.${column} = (select min(${column}) from ${schema}.${table})`,
    );
  await copy("submission", "job", ", 'id', 'job_copy' || g");
  await copy("job", "no", "");
  await ask(url, `analyze ${schema}.submission`);
  await ask(url, `analyze ${schema}.job`);
}, 300_000);
afterAll(() => store.close());

async function calls(filter: JobFilter): Promise<{ calls: number; found: string[] }> {
  const found: string[] = [];
  let count = 0;
  for (let cursor: string | undefined; ; ) {
    const page = await store.find({ ...filter, ...(cursor === undefined ? {} : { cursor }) });
    count += 1;
    found.push(...page.jobs.map(({ id }) => id));
    if (page.next === null) return { calls: count, found };
    cursor = page.next;
  }
}

describe("among three hundred thousand jobs", () => {
  test("a kind with one job is found after a bounded number of checks in each call", async () => {
    const { calls: count, found } = await calls({ kind: ["rare"] });
    expect(found).toEqual([rare.id]);
    expect(count).toBe(4);
  });

  test("the time of a submit is found in the same way", async () => {
    const { calls: count, found } = await calls({ submittedAfter: T0 + 3 });
    expect(found).toEqual([rare.id]);
    expect(count).toBe(4);
  });

  test("jobs that wait or run are found in one call", async () => {
    for (const state of [["queued"], ["running", "queued"], ["queued", "running", "failed"]] as const) {
      expect(await calls({ state })).toMatchObject({ calls: 1, found: [rare.id] });
    }
  });

  test("a name is found by its index", async () => {
    expect(await calls({ name: "needle" })).toMatchObject({ calls: 1, found: [rare.id] });
  });

  test("a full page takes one call, however many match", async () => {
    const { jobs, next } = await store.find({ kind: ["work"], limit: 50 });
    expect(jobs).toHaveLength(50);
    expect(next).not.toBeNull();
  });
});
