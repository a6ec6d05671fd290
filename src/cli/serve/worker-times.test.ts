import { describe, expect, it } from "vitest";
import { testIo } from "../../../test/cli/kit.ts";
import { loadConfig } from "../config/config.ts";
import { OPAL_TIMES, WORKER_KEYS } from "./keys.ts";
import { workerTimes } from "./worker-times.ts";

/** Of a worker that was started in this environment. */
function times(env: Readonly<Record<string, string>>) {
  return workerTimes(loadConfig({ io: testIo({ env }) }, [...WORKER_KEYS, ...OPAL_TIMES]));
}

describe("a worker's lease and heartbeat", () => {
  it("are the server's lease and two seconds where nothing is said", () => {
    expect(times({})).toEqual({ heartbeat: 2_000 });
  });

  it("follow OPAL_LEASE_TTL_SECS", () => {
    expect(times({ OPAL_LEASE_TTL_SECS: "30" })).toEqual({ lease: 30_000, heartbeat: 2_000 });
    // In whole milliseconds: 1.1 * 1000 is a little more.
    expect(times({ OPAL_LEASE_TTL_SECS: "1.1" })).toEqual({ lease: 1_100, heartbeat: 2_000 });
  });

  it("follow OPAL_LEASE_RENEW_SECS and OPAL_HEARTBEAT_INTERVAL_SECS, whichever is shorter", () => {
    expect(times({ OPAL_LEASE_RENEW_SECS: "4" })).toEqual({ heartbeat: 4_000 });
    expect(times({ OPAL_HEARTBEAT_INTERVAL_SECS: "0.5" })).toEqual({ heartbeat: 500 });
    const both = (renew: string, beat: string) =>
      times({ OPAL_LEASE_RENEW_SECS: renew, OPAL_HEARTBEAT_INTERVAL_SECS: beat }).heartbeat;
    expect([both("3", "7"), both("7", "3"), both("0.1", "3600")]).toEqual([3_000, 3_000, 100]);
  });

  it("follow our own words where both are given", () => {
    const opal = { OPAL_LEASE_TTL_SECS: "30", OPAL_LEASE_RENEW_SECS: "4", OPAL_HEARTBEAT_INTERVAL_SECS: "3" };
    expect(times({ ...opal, PERDURE_HEARTBEAT: "1s" })).toEqual({ lease: 30_000, heartbeat: 1_000 });
    expect(times({ ...opal, PERDURE_WORKER_LEASE: "20s" })).toEqual({ lease: 20_000, heartbeat: 3_000 });
  });
});
