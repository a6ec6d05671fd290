import { describe, expect, it } from "vitest";
import { resolvePolicy } from "../core/resolve-policy.ts";
import type { SubmitItem } from "../engine/submit.ts";
import type { LaneUseQuery } from "../store/store.ts";
import { LaneQuota } from "./lane-quota.ts";

const policy = resolvePolicy();
const item = (queue: string, rest: Partial<SubmitItem> = {}): SubmitItem => ({
  ...{ kind: "k", payload: "1", policy, namespace: "a", queue },
  ...rest,
});
const OF_TOKEN = "which is the quota of a token and its jobs";
const OF_NAMESPACE = "which is the quota of a namespace";

/** A store of lanes as the quota asks for them; `stored` are the queues that exist, with whoever made them. */
function quotaOver(
  stored: Map<string, string>,
  lanesPerToken: number,
  lanesPerNamespace = 100,
  family: ReadonlyMap<string, string | null> = new Map(),
) {
  const seen = { asked: 0, now: 0 };
  const store = {
    async laneUse({ owner, lanes }: LaneUseQuery) {
      seen.asked += 1;
      const owned = [...stored.values()].filter((each) => each === owner).length;
      return { total: stored.size, owned, exists: lanes.map(({ queue }) => stored.has(queue)) };
    },
    // Who is whose child, and who submitted those at the top.
    facts: async ([id = ""]: readonly string[]) =>
      [family.has(id) ? { namespace: "a", parentId: family.get(id) ?? null } : null] as never,
    events: async ({ jobId }: { jobId?: string }) => [{ data: { by: `token:of ${jobId}` } }] as never,
  };
  const limits = { lanesPerToken, lanesPerNamespace };
  const quota = new LaneQuota({ store, limits, clock: { monotonic: () => seen.now } });
  const submit = async (items: SubmitItem[], owner = "token:x") => {
    const answers = (await quota.check(items, owner)) ?? items.map(() => null);
    items.forEach((each, i) => {
      if (answers[i] === null)
        stored.set(each.queue as string, stored.get(each.queue as string) ?? (each.owner as string));
    });
    return answers.map((answer) => answer?.message ?? null);
  };
  return { submit, seen };
}

describe("S32: the quota of lanes", () => {
  it("refuses new ones beyond a token's share, none that exist, and nothing of others", async () => {
    const { submit, seen } = quotaOver(new Map(), 2, 4);
    expect(await submit([item("q1"), item("q2"), item("q1")])).toEqual([null, null, null]);
    expect(await submit([item("q1"), item("q2")])).toEqual([null, null]);
    expect(seen.asked).toBe(1);
    expect(await submit([item("q2"), item("q3")])).toEqual([null, expect.stringContaining(OF_TOKEN)]);
    expect(await submit([item("q3"), item("q4"), item("q1")], "token:y")).toEqual([null, null, null]);
    expect(await submit([item("q5")], "token:z")).toEqual([expect.stringContaining(OF_NAMESPACE)]);
  });

  it("counts a list as it goes, so that one request cannot pass it", async () => {
    const { submit } = quotaOver(new Map(), 3);
    const answers = await submit(Array.from({ length: 10 }, (_, n) => item(`q${n}`)));
    expect(answers.map((message) => message === null)).toEqual([true, true, true, ...Array(7).fill(false)]);
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
    // It is asked for again when it may have been deleted meanwhile.
    stored.delete("q2");
    stored.set("q4", "token:x");
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
    expect([...new Set(stored.values())]).toEqual(["token:of job_top"]);
    expect(await submit([child("q4", "job_other")])).toEqual([null]);
    expect(await submit([child("q5", "job_lost"), child("q6", "job_lost_too")])).toEqual([null, null]);
    expect(await submit([child("q7", "job_lost_too")])).toEqual([expect.stringContaining(OF_TOKEN)]);
  });

  it("tells kinds, labels and namespaces apart", async () => {
    const { submit, seen } = quotaOver(new Map(), 100);
    await submit([item("q")]);
    for (const other of [item("q", { kind: "j" }), item("q", { labels: { a: "b" } }), item("q", { namespace: "b" })]) {
      const { asked } = seen;
      expect(await submit([other])).toEqual([null]);
      expect(seen.asked).toBe(asked + 1);
    }
  });
});
