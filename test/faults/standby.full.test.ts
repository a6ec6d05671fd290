/** F24: a commit that waits for a synchronous standby, and whose wait is cancelled. PostgreSQL then answers as if it
 *  were done, with a warning, although only one machine has it. It must not be reported as stored. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, until } from "../postgres/client.ts";
import { type PostgresServer, startServer } from "../postgres/server.ts";
import { makeSynchronous, startStandby } from "../postgres/standby.ts";
import { expectSound, openScene, type Scene, TEST_MS } from "./kit.ts";

let primary: PostgresServer;
let standby: PostgresServer;
beforeAll(async () => {
  primary = await startServer({ settings: { shared_buffers: "16MB" } });
  standby = await startStandby(primary);
  await makeSynchronous(primary);
});
afterAll(() => Promise.all([primary.stop("immediate"), standby.stop("immediate")]));

/** Stops the process that receives the log, and with it every commit; resolves with a function that resumes it. */
async function stopReceiving(): Promise<() => void> {
  const [row] = await ask<{ pid: number }>(standby.url, "SELECT pid FROM pg_stat_wal_receiver");
  const pid = row?.pid as number;
  process.kill(pid, "SIGSTOP");
  return () => process.kill(pid, "SIGCONT");
}

/** Cancels the wait of every commit that waits for the standby; returns how many. */
async function cancelWaits(): Promise<number> {
  const rows = await ask(
    primary.url,
    `SELECT pg_cancel_backend(pid) FROM pg_stat_activity
     WHERE wait_event = 'SyncRep' AND application_name = 'perdure' AND query NOT LIKE '%notify%'`,
  );
  return rows.length;
}

type Ending = "resolved" | "pending" | string;

/** Makes the call while the standby receives nothing, and cancels each wait for it. Returns the outcome of the call so
 *  far. */
async function callCutShort(call: () => Promise<unknown>): Promise<{ ending: Ending; settled: Promise<unknown> }> {
  const goOn = await stopReceiving();
  try {
    let ending: Ending = "pending";
    const settled = call().then(
      () => {
        ending = "resolved";
      },
      (error: Error & { code?: string }) => {
        ending = error.code ?? error.message;
      },
    );
    let cancelled = 0;
    await until("several waits were cancelled", async () => {
      cancelled += await cancelWaits();
      return cancelled >= 6 || ending !== "pending";
    });
    return { ending, settled };
  } finally {
    goOn();
  }
}

describe("a commit whose wait for the standby is cancelled", () => {
  const cases: [string, (scene: Scene, later: string) => Promise<unknown>][] = [
    ["submit without a key", ({ perdure }) => perdure.submit("job", { n: 0, work: "quick" })],
    ["submit with a key", ({ perdure }) => perdure.submit("job", { n: 0, work: "quick" }, { key: "n-0" })],
    [
      "submitMany",
      ({ perdure }) => perdure.submitMany([0, 1, 2].map((n) => ({ task: "job", input: { n, work: "quick" } }))),
    ],
    ["a command", ({ perdure }, later) => perdure.retry(later)],
  ];
  it.each(cases)(
    "is not reported as stored: %s",
    async (name, call) => {
      const url = `${primary.url}?schema=${name.toLowerCase().replaceAll(" ", "_")}`;
      const scene = await openScene({ url, lease: "60s" });
      await (await scene.perdure.submit("job", { n: 99, work: "quick" })).result({ timeout: "30s" });
      const later = await scene.perdure.submit("job", { n: 98, work: "quick" }, { delay: "1h" });
      const { ending, settled } = await callCutShort(() => call(scene, later.id));
      expect(["pending", "store_unknown"]).toContain(ending);
      await settled;
      await scene.perdure.retry(later.id).catch(() => {}); // the command may have been executed
      await expectSound(url, scene, { acknowledged: new Map(), refused: [] });
    },
    TEST_MS,
  );
});
