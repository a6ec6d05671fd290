import { describe, expect, it } from "vitest";
import { resolvePolicy } from "../core/resolve-policy.ts";
import type { SubmitItem } from "../engine/submit.ts";
import { LaneQuota } from "./lane-quota.ts";

const policy = resolvePolicy();
const item = (queue: string, rest: Partial<SubmitItem> = {}): SubmitItem => ({
  ...{ kind: "k", payload: "1", policy, namespace: "a", queue },
  ...rest,
});

describe("S32: the quota of lanes", () => {
  it("refuses new ones beyond it, and none that are known", async () => {
    let asked = 0;
    const store = {
      async laneCount() {
        asked += 1;
        return asked === 1 ? 0 : 2;
      },
    };
    const quota = new LaneQuota(store, 2);
    expect(await quota.check([item("q1"), item("q2"), item("q1")])).toEqual([null, null, null]);
    expect(await quota.check([item("q1"), item("q2")])).toBeNull();
    expect(asked).toBe(1);
    const [known, refused] = (await quota.check([item("q2"), item("q3")])) ?? [];
    expect(known).toBeNull();
    expect(refused).toMatchObject({
      code: "too_many_requests",
      message: expect.stringContaining("which is the quota"),
    });
  });

  it("counts a list as it goes, so that one request cannot pass it", async () => {
    const quota = new LaneQuota({ laneCount: async () => 0 }, 3);
    const answers = await quota.check(Array.from({ length: 10 }, (_, n) => item(`q${n}`)));
    expect(answers?.map((error) => error === null)).toEqual([true, true, true, ...Array(7).fill(false)]);
  });

  it("tells kinds, labels and namespaces apart", async () => {
    const quota = new LaneQuota({ laneCount: async () => 0 }, 100);
    await quota.check([item("q")]);
    for (const other of [item("q", { kind: "j" }), item("q", { labels: { a: "b" } }), item("q", { namespace: "b" })]) {
      expect(await quota.check([other])).toEqual([null]);
    }
  });
});
