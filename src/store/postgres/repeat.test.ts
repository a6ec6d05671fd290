/** A submit whose answer was lost is repeated at once, while its first try may still be committing. The repeat then
 *  waits for it, finds the job, and does not store it again. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { startProxy } from "../../../test/postgres/chaos-proxy.ts";
import { ask } from "../../../test/postgres/client.ts";
import { type PostgresServer, startServer } from "../../../test/postgres/server.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { audit } from "../conformance/audit.ts";
import { decideCommandAt, newJob, T0 } from "../conformance/kit.ts";
import type { Store } from "../store.ts";
import { openPostgres } from "./open.ts";

let server: PostgresServer;
let proxy: Awaited<ReturnType<typeof startProxy>>;
let store: Store;
beforeAll(async () => {
  server = await startServer();
  proxy = await startProxy({ host: "127.0.0.1", port: server.port });
  const url = new URL(server.url);
  url.port = String(proxy.port);
  const parts = { random: Math.random, clock: systemClock, newSecret: () => "x".repeat(40) };
  store = await openPostgres({ url: url.toString(), ...parts });
  // Every commit of a job takes a while.
  await ask(
    server.url,
    `create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.3); return null; end';
     create constraint trigger slow after insert on perdure.submission deferrable initially deferred
       for each row execute function slow()`,
  );
});
afterAll(async () => {
  await store.close();
  await proxy.close();
  await server.stop();
});

const stored = async () =>
  Number((await ask<{ n: string }>(server.url, "select count(*) as n from perdure.job"))[0]?.n);

test.each([
  ["without a key", null],
  ["with a key", "k"],
])("a submit %s, disconnected during its commit, is stored once and answered as stored", async (_, key) => {
  await store.insert([newJob()], T0); // prepares statements, and caches lanes
  if (key !== null) await store.insert([newJob({ key: "other" })], T0);
  const before = await stored();
  const name = key === null ? "perdure_insert" : "perdure_insert_keyed";
  const rule = proxy.onClientMessage(({ type, text }) => type === "B" && text.includes(`${name}\0`), "cut-after", 1);
  const job = newJob({ key });
  expect(await store.insert([job], T0)).toEqual([{ status: "inserted", id: job.id }]);
  expect(rule.hits()).toBe(1);
  rule.remove();
  expect(await stored()).toBe(before + 1);
  await audit(store);
});

test.each([
  ["without a key", null, false],
  ["with a key", "child", false],
  ["without a key, while its parent is cancelled", null, true],
  ["with a key, while its parent is cancelled", "cancelled child", true],
])(
  "a submit of a child %s, disconnected during its commit, is stored once and answered as stored",
  async (_, key, isCancelled) => {
    const rival = await openPostgres({ url: server.url, random: Math.random, clock: systemClock, newSecret: () => "" });
    const parent = newJob();
    await store.insert([parent], T0);
    const child = newJob({ key, parent: { id: parent.id, attempt: null }, depth: 1 });
    const before = await stored();
    let cancelling: Promise<unknown> = Promise.resolve();
    const rule = proxy.onClientMessage(
      ({ type, text }) => {
        const isCommit = type === "Q" && text.includes("commit");
        if (isCommit && isCancelled) {
          // It waits for the lock that the first try holds until it has committed.
          const commands = [{ jobId: parent.id, command: { kind: "cancel" } as const }];
          cancelling = rival.amend(commands, T0 + 1, decideCommandAt(T0 + 1));
        }
        return isCommit;
      },
      "cut-after",
      1,
    );
    try {
      expect(await store.insert([child], T0)).toEqual([{ status: "inserted", id: child.id }]);
      await cancelling;
    } finally {
      rule.remove();
      await rival.close();
    }
    expect(rule.hits()).toBe(1);
    expect(await stored()).toBe(before + 1);
    expect((await store.children.cascades(9)).includes(parent.id)).toBe(isCancelled);
    await audit(store);
  },
);
