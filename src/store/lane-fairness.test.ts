import { describe, expect, it } from "vitest";
import { capacityLabels, resourceLabels } from "../core/input/resources.ts";
import { type Lane, serves } from "./lane.ts";
import {
  fitting,
  freeCapacity,
  heavyShares,
  hostName,
  type LaneShare,
  LaneTurns,
  lightShare,
  sortLanes,
} from "./lane-fairness.ts";

const lane = (no: number, cpu: number, memory: number): Lane => ({
  ...{ no, namespace: "default", queue: "q", kind: "work" },
  labels: resourceLabels({ cpu, memory }),
});
const LANES = [lane(1, 0, 0), lane(2, 500, 0), lane(3, 500, 0), lane(4, 1_000, 200), lane(5, 0, 300), lane(6, 0, 0)];
const labels = resourceLabels({ cpu: 2_000, memory: 400 });
const lanes = sortLanes(LANES, labels);
const request = { session: "s", limit: 10, claimId: null };
const names = (shares: readonly LaneShare[]) => shares.map(({ name }) => name);

describe("the lanes of a session", () => {
  it("are served if it has at least the capacity they need", () => {
    const session = { namespace: "default", kinds: ["work"], queues: null, labels };
    expect(LANES.filter((one) => serves(session, one))).toEqual(LANES);
    const small = { ...session, labels: resourceLabels({ cpu: 999, memory: 300 }) };
    expect(LANES.filter((one) => serves(small, one)).map(({ no }) => no)).toEqual([1, 2, 3, 5, 6]);
    expect(LANES.filter((one) => serves({ ...session, labels: {} }, one)).map(({ no }) => no)).toEqual([1, 6]);
    expect(serves(session, { ...lane(7, 0, 0), labels: { "resource/cpu": "many" } })).toBe(false);
    expect(serves(session, { ...lane(7, 0, 0), labels: { "resource/gpu": "1" } })).toBe(false);
  });

  it("are light or heavy, and heavy ones fit if they need no more than the capacity", () => {
    expect([...lanes.light]).toEqual([1, 6]);
    expect([...fitting(lanes, lanes.capacity)]).toEqual([2, 3, 4, 5]);
    expect([...fitting(lanes, { cpu: 999, memory: 400 })]).toEqual([2, 3, 5]);
    expect([...fitting(lanes, { cpu: 0, memory: 0 })]).toEqual([]);
  });

  it("with the same needs form a share, and only as many of its jobs are taken as fit", () => {
    expect(heavyShares(lanes, [2, 3, 4, 5], 10, lanes.capacity)).toEqual([
      { name: "500/0", lanes: [2, 3], limit: 4, needs: { cpu: 500, memory: 0 } },
      { name: "1000/200", lanes: [4], limit: 2, needs: { cpu: 1_000, memory: 200 } },
      { name: "0/300", lanes: [5], limit: 1, needs: { cpu: 0, memory: 300 } },
    ]);
    const some = heavyShares(lanes, [2, 5], 1, { cpu: 1_700, memory: 1_000 });
    expect(some.map(({ limit }) => limit)).toEqual([1, 1]);
  });
});

describe("capacity", () => {
  const of = (cpu: number, memory: number) => ({ cpu, memory });
  const none = of(0, 0);
  const small = sortLanes([], capacityLabels(of(2_000, 400), of(8_000, 400)));

  it.each([
    ["the session's capacity", none, none, undefined, of(2_000, 400)],
    ["minus what it uses", of(500, 100), of(500, 100), undefined, of(1_500, 300)],
    ["at most what the host has left", none, of(7_000, 50), undefined, of(1_000, 350)],
    ["nothing where others took it all", none, of(9_000, 0), undefined, of(0, 400)],
    ["at most what the claim allows", none, none, of(1_000, 9_999), of(1_000, 400)],
  ])("is %s", (_, bySession, byHost, room, left) => {
    const asked = room === undefined ? request : { ...request, room };
    expect(freeCapacity(small, { bySession, byHost }, asked)).toEqual(left);
  });

  it("is that of a host with its name, per namespace; a session of an unknown host shares with nobody", () => {
    const named = (id: string, namespace: string, host: string) => hostName({ id, namespace, host });
    expect(named("a", "n", "h")).toBe(named("b", "n", "h"));
    const names = [named("a", "n", "h"), named("a", "m", "h"), named("a", "n", ""), named("b", "n", "")];
    expect(new Set(names).size).toBe(4);
  });
});

describe("turns", () => {
  const shares = [lightShare([1], request), ...heavyShares(lanes, [2, 4], 10, lanes.capacity)];

  it("rotate, whatever was taken", () => {
    const turns = new LaneTurns();
    const seen: string[] = [];
    for (let i = 0; i < 6; i++) {
      const [first] = turns.order(7, shares);
      seen.push((first as LaneShare).name);
      turns.taken(7, first as LaneShare);
    }
    expect(seen).toEqual(["1000/200", "500/0", "", "1000/200", "500/0", ""]);
    expect(names(turns.order(8, shares))).toEqual(["1000/200", "500/0", ""]);
  });

  const take = (turns: LaneTurns, session: number, among: readonly LaneShare[]): string => {
    const [first] = turns.order(session, among) as [LaneShare];
    turns.taken(session, first);
    return first.name;
  };
  const [light, small, big] = shares as [LaneShare, LaneShare, LaneShare];

  it("are kept by shares that do not fit, whatever is taken meanwhile", () => {
    const turns = new LaneTurns();
    const cheap = { ...small, name: "0/50" };
    const seen: string[] = [];
    for (let i = 0; i < 8; i++) {
      seen.push(take(turns, 7, [light, cheap, small, big]));
      take(turns, 7, [light, cheap]);
      take(turns, 7, [light]);
    }
    for (const { name } of [small, big]) expect(seen.filter((one) => one === name).length).toBeGreaterThanOrEqual(3);
  });

  it("come eventually even while new needs keep arriving", () => {
    const turns = new LaneTurns();
    take(turns, 7, shares);
    const seen = Array.from({ length: 5 }, (_, i) => take(turns, 7, [light, small, { ...big, name: `0/${i}` }]));
    expect(seen.slice(0, 2)).toEqual([small.name, light.name]);
  });

  it("do not apply to a session with only light jobs; with heavy jobs, light ones count too", () => {
    const turns = new LaneTurns();
    expect(take(turns, 7, [light])).toBe("");
    expect(names(turns.order(7, [light, small]))).toEqual(["500/0", ""]);
    expect(take(turns, 7, [light, small])).toBe("500/0");
    expect(take(turns, 7, [light])).toBe(""); // there was no capacity beside it
    expect(names(turns.order(7, [light, small]))).toEqual(["500/0", ""]);
  });

  it("skip shares that no longer exist", () => {
    const turns = new LaneTurns();
    expect(take(turns, 7, shares)).toBe("1000/200");
    expect(names(turns.order(7, [light, small]))).toEqual(["500/0", ""]);
    expect(names(turns.order(7, [light]))).toEqual([""]);
  });

  it("of many sessions are eventually dropped, and start again", () => {
    const turns = new LaneTurns();
    for (let session = 0; session <= 1_000; session++) take(turns, session, shares);
    expect(names(turns.order(5, shares))[0]).toBe("1000/200");
    expect(names(turns.order(1_000, shares))[0]).toBe("500/0");
  });

  it("of many needs are eventually dropped, first those no longer used", () => {
    const turns = new LaneTurns();
    const named = (i: number) => ({ ...big, name: `1000/${i}` });
    for (let i = 1; i <= 1_200; i++) turns.order(7, [light, small, named(i)]);
    const left = names(turns.order(7, [named(1), named(1_200), light, small]));
    expect(left).toEqual(["500/0", "", "1000/1200", "1000/1"]);
  });
});
