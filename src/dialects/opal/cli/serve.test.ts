import { randomFillSync } from "node:crypto";
import { describe, expect, it, onTestFinished } from "vitest";
import { testIo } from "../../../../test/cli/kit.ts";
import { loadConfig } from "../../../cli/config/config.ts";
import { SERVER_KEYS } from "../../../cli/serve/process-settings.ts";
import { resolvePolicy } from "../../../core/policy/resolve-policy.ts";
import { Engine } from "../../../engine/engine.ts";
import { idMaker } from "../../../lib/id.ts";
import { openStore } from "../../../store/open.ts";
import { counted } from "../../../testing/real-work.ts";
import { VirtualClock } from "../../../testing/virtual-clock.ts";
import { OPAL_DEFAULTS, opalSettings } from "../settings.ts";
import { opalOptions, reapEveryMs } from "./serve.ts";

/** Of a server that was started in this environment. */
function options(env: Readonly<Record<string, string>>) {
  return opalOptions(loadConfig({ io: testIo({ env }) }, SERVER_KEYS));
}

describe("OPAL's variables, as a server takes them", () => {
  it("have the defaults of the document", () => {
    expect(options({})).toEqual({ engine: null, anonymous: false, settings: OPAL_DEFAULTS });
  });

  it.each<Record<string, string>>([
    { OPAL_MAX_RETRIES: "4", OPAL_RETRY_BACKOFFS: "1,2.5" },
    { OPAL_LEASE_TTL_SECS: "0.5", OPAL_LEASE_RENEW_SECS: "0.1" },
    { OPAL_LEASE_TTL_SECS: "3600", OPAL_LEASE_RENEW_SECS: "3599.5" },
    { OPAL_LEASE_TTL_SECS: "0.3", OPAL_LEASE_RENEW_SECS: "0.2" },
    { OPAL_HEARTBEAT_INTERVAL_SECS: "0.5", OPAL_WORKER_TTL_SECS: "0.75" },
    { OPAL_HEARTBEAT_INTERVAL_SECS: "3600", OPAL_WORKER_TTL_SECS: "86400" },
    { OPAL_RECLAIM_SCAN_EVERY_LOOPS: "1000000" },
  ])("mean what they mean in a file: %o", (env) => {
    expect(options(env).settings).toEqual(opalSettings(env));
  });

  it.each([
    ...[
      ["OPAL_MAX_RETRIES", "2.5"],
      ["OPAL_MAX_RETRIES", "-1"],
      ["OPAL_LEASE_TTL_SECS", "0.2"],
      ["OPAL_LEASE_TTL_SECS", "3601"],
    ],
    ...[
      ["OPAL_LEASE_TTL_SECS", "5"], // as often as it is renewed
      ["OPAL_LEASE_RENEW_SECS", "0.05"],
      ["OPAL_LEASE_RENEW_SECS", "15"],
      ["OPAL_LEASE_RENEW_SECS", "3601"],
    ],
    ...[
      ["OPAL_HEARTBEAT_INTERVAL_SECS", "0"],
      ["OPAL_HEARTBEAT_INTERVAL_SECS", "10"],
      ["OPAL_HEARTBEAT_INTERVAL_SECS", "3601"],
    ],
    ...[
      ["OPAL_WORKER_TTL_SECS", "0.05"],
      ["OPAL_WORKER_TTL_SECS", "86401"],
      ["OPAL_RECLAIM_SCAN_EVERY_LOOPS", "0"],
      ["OPAL_RECLAIM_SCAN_EVERY_LOOPS", "2.5"],
    ],
  ])("are refused as in a file: %s=%s", (name = "", text = "") => {
    expect(() => options({ [name]: text })).toThrow("OPAL_");
    expect(() => opalSettings({ [name]: text })).toThrow("OPAL_");
  });
});

describe("OPAL_RECLAIM_SCAN_EVERY_LOOPS", () => {
  it("sets the interval of scans for lost jobs in tenths of a second", () => {
    expect(reapEveryMs(options({}))).toBe(1_000);
    expect(reapEveryMs(options({ OPAL_RECLAIM_SCAN_EVERY_LOOPS: "3" }))).toBe(300);
  });

  /** When the loss was seen of a job whose worker's lease ended after 2 s. */
  async function seenAfter(loops: string): Promise<number> {
    const clock = new VirtualClock();
    const random = () => 0.5;
    const calls = { underWay: 0 };
    const opened = await openStore({ url: ":memory:", clock, random, newSecret: () => "x".repeat(32) });
    const store = counted(opened, calls);
    const newId = idMaker({ now: clock.now, randomBytes: (bytes) => randomFillSync(bytes) });
    const every = reapEveryMs(options({ OPAL_RECLAIM_SCAN_EVERY_LOOPS: loops }));
    const engine = new Engine({
      store,
      clock,
      random,
      newId,
      log: () => {},
      name: "e",
      leaseMs: 15_000,
      reapEveryMs: every,
    });
    engine.start();
    onTestFinished(async () => {
      await engine.stop();
      await store.close();
    });
    const [job] = await engine.submit([{ kind: "k", payload: "null", policy: resolvePolicy(1) }]);
    const id = (job as { id: string }).id;
    const session = await engine.openSession({
      ...{ namespace: "default", name: "w", host: "h", pid: 1, kinds: ["k"], queues: null, labels: {}, slots: 1 },
      leaseMs: 2_000,
    });
    const began = clock.now();
    await engine.claim(session, { limit: 1 });
    for (;;) {
      clock.moveTo(clock.nextAt() as number);
      for (let quiet = 0; quiet < 5; quiet = calls.underWay === 0 ? quiet + 1 : 0) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      const lost = (await store.events.page({ after: 0, limit: 99, jobId: id })).events.find(
        ({ name }) => name === "attempt.lost",
      );
      if (lost !== undefined) return lost.at - began;
    }
  }

  it("is how soon a loss is seen, and above 10 changes nothing", async () => {
    expect(await seenAfter("3")).toBe(2_100);
    expect(await seenAfter("10")).toBe(3_000);
    expect(await seenAfter("500")).toBe(3_000);
  });
});
