import { describe, expect, it } from "vitest";
import { PerdureError } from "../core/errors.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import type { SubmitAnswer, SubmitItem } from "../engine/submit-item.ts";
import type { LaneUseQuery } from "../store/store.ts";
import { type LaneOwner, LaneQuota, tokenOwner } from "./lane-quota.ts";

const policy = resolvePolicy();
const item = (queue: string, rest: Partial<SubmitItem> = {}): SubmitItem => ({
  ...{ kind: "k", payload: "1", policy, namespace: "a", queue },
  ...rest,
});
const OF_TOKEN = "the quota of a token and its jobs";
const OF_NAMESPACE = "the quota of a namespace";

/** A store of lanes as the quota asks for them; `stored` are the queues that exist, with whoever made them. Jobs with the key
 *  "taken" are refused, those with the key "repeated" exist already. */
function quotaOver(
  stored: Map<string, string>,
  lanesPerToken: number,
  lanesPerNamespace = 100,
  family: ReadonlyMap<string, string | null> = new Map(),
) {
  const seen = { asked: 0, now: 0 };
  const store = {
    queues: {
      async laneUse({ owners, lanes }: LaneUseQuery) {
        seen.asked += 1;
        const owned = [...stored.values()].filter((each) => owners.includes(each)).length;
        return { total: stored.size, owned, exists: lanes.map(({ queue }) => stored.has(queue)) };
      },
    },
    // Who is whose child, and who submitted those at the top.
    facts: async ([id = ""]: readonly string[]) =>
      [family.has(id) ? { namespace: "a", parentId: family.get(id) ?? null } : null] as never,
    events: {
      page: async ({ jobId }: { jobId?: string }) =>
        ({ events: [{ data: { by: "token:ci", token: `of ${jobId}` } }] }) as never,
    },
  };
  const limits = { lanesPerToken, lanesPerNamespace };
  const quota = new LaneQuota({ store, limits, clock: { monotonic: () => seen.now } });
  const insert = ({ key, queue, owner }: SubmitItem): SubmitAnswer => {
    if (key === "taken") return { status: "refused", error: new PerdureError("key_conflict", "taken") };
    if (key == null) stored.set(queue as string, stored.get(queue as string) ?? (owner as string));
    return { status: "ok", id: "job_1", created: key == null, chapter: 1, state: "queued" };
  };
  const submit = async (items: SubmitItem[], owner = X) => {
    const answers = await quota.submit(items, owner, async (admitted) => {
      await new Promise((resolve) => setImmediate(resolve));
      return admitted.map(insert);
    });
    return answers.map((answer) => (answer.status === "ok" ? null : answer.error.message));
  };
  return { submit, seen, stored };
}

const [X, Y, Z] = ["x", "y", "z"].map((id) => tokenOwner(id, `token:${id}`)) as [LaneOwner, LaneOwner, LaneOwner];
const queues = (from: number, to: number, rest: Partial<SubmitItem> = {}) =>
  Array.from({ length: to - from }, (_, n) => item(`q${from + n}`, rest));
const admitted = (answers: (string | null)[]) => answers.filter((message) => message === null).length;

describe("S32: the quota of lanes", () => {
  it("refuses new ones beyond a token's share, none that exist, and nothing of others", async () => {
    const { submit, seen } = quotaOver(new Map(), 2, 4);
    expect(await submit([item("q1"), item("q2"), item("q1")])).toEqual([null, null, null]);
    expect(await submit([item("q1"), item("q2")])).toEqual([null, null]);
    expect(seen.asked).toBe(1);
    expect(await submit([item("q2"), item("q3")])).toEqual([null, expect.stringContaining(OF_TOKEN)]);
    expect(await submit([item("q3"), item("q4"), item("q1")], Y)).toEqual([null, null, null]);
    expect(await submit([item("q5")], Z)).toEqual([expect.stringContaining(OF_NAMESPACE)]);
  });

  it("counts a list as it goes, so that one request cannot pass it", async () => {
    const { submit } = quotaOver(new Map(), 3);
    const answers = await submit(Array.from({ length: 10 }, (_, n) => item(`q${n}`)));
    expect(answers.map((message) => message === null)).toEqual([true, true, true, ...Array(7).fill(false)]);
  });

  it("does not count lanes that are refused or exist, and reads them again", async () => {
    const { submit, stored } = quotaOver(new Map(), 3);
    for (const key of ["taken", "repeated"]) {
      for (let from = 0; from < 30; from += 3) await submit(queues(from, from + 3, { key }));
      expect(stored.size).toBe(0);
    }
    let made = 0;
    for (let from = 0; from < 30; from += 3) made += admitted(await submit(queues(from, from + 3)));
    expect([made, [...stored.values()]]).toEqual([3, [X.key, X.key, X.key]]);
    expect(await submit([item("other")], Y)).toEqual([null]);
  });

  it("counts what other calls are storing, until they have ended", async () => {
    const { submit, stored } = quotaOver(new Map(), 4, 6);
    const lists = await Promise.all(Array.from({ length: 10 }, (_, n) => submit(queues(3 * n, 3 * n + 3))));
    expect([lists.map(admitted).reduce((a, b) => a + b), stored.size]).toEqual([4, 4]);
    const ofAll = await Promise.all([submit(queues(40, 43), Y), submit(queues(50, 53), Z), submit(queues(0, 1), Y)]);
    expect([ofAll.map(admitted), stored.size]).toEqual([[2, 0, 1], 6]);
    // What was refused has left nothing behind: they are free as soon as one has been deleted.
    stored.delete("q0");
    expect(await submit(queues(60, 62))).toEqual([null, expect.any(String)]);
    // Two calls that make one lane need one.
    stored.delete("q60");
    expect(await Promise.all([submit([item("same")]), submit([item("same")])])).toEqual([[null], [null]]);
  });

  it("knows tokens by their ids; lanes of earlier versions count for all tokens of the name", async () => {
    const { submit } = quotaOver(new Map([["old", "token:ci"]]), 2);
    const [one, two] = [tokenOwner("1", "token:ci"), tokenOwner("2", "token:ci")];
    expect(admitted(await submit(queues(0, 9), one))).toBe(1);
    expect(admitted(await submit(queues(10, 19), two))).toBe(1);
  });

  it("is that of the store: after a restart lanes that exist are used, and what was deleted counts no more", async () => {
    const stored = new Map([
      ["q1", "token:x"],
      ["q2", "token:x"],
    ]);
    const restarted = quotaOver(stored, 2);
    expect(await restarted.submit([item("q1"), item("q2"), item("q3")])).toEqual([null, null, expect.any(String)]);
    stored.delete("q1");
    expect(await restarted.submit([item("q3")])).toEqual([null]);
    // It is read again when it may have been deleted.
    stored.delete("q2");
    stored.set("q4", X.key);
    restarted.seen.now += 3_600_000;
    expect(await restarted.submit([item("q2")])).toEqual([expect.stringContaining(OF_TOKEN)]);
  });

  it("counts children for whoever submitted the top of their family; those without a top share one", async () => {
    const family = new Map([
      ["job_child", "job_parent"],
      ["job_parent", "job_top"],
      ["job_top", null],
      ["job_other", null],
      ["job_lost", "job_pruned"],
      ["job_lost_too", "job_pruned_too"],
    ]);
    const stored = new Map<string, string>();
    const { submit } = quotaOver(stored, 2, 100, family);
    const child = (queue: string, id: string) => item(queue, { parent: { id, attempt: 1 } as never });
    expect(await submit([child("q1", "job_child"), child("q2", "job_parent"), child("q3", "job_top")])).toEqual([
      null,
      null,
      expect.stringContaining(OF_TOKEN),
    ]);
    expect([...new Set(stored.values())]).toEqual([tokenOwner("of job_top", "token:ci").key]);
    expect(await submit([child("q4", "job_other")])).toEqual([null]);
    expect(await submit([child("q5", "job_lost"), child("q6", "job_lost_too")])).toEqual([null, null]);
    expect(await submit([child("q7", "job_lost_too")])).toEqual([expect.stringContaining(OF_TOKEN)]);
  });

  it("distinguishes kinds, labels and namespaces", async () => {
    const { submit, seen } = quotaOver(new Map(), 100);
    await submit([item("q")]);
    for (const other of [item("q", { kind: "j" }), item("q", { labels: { a: "b" } }), item("q", { namespace: "b" })]) {
      const { asked } = seen;
      expect(await submit([other])).toEqual([null]);
      expect(seen.asked).toBe(asked + 1);
    }
  });
});
