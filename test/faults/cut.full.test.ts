/** F25: the connection breaks at the worst moments: after a statement was sent, or after it was executed and before its
 *  answer arrived. A submitter learns whether the job is stored, or that this is unknown; a repeat creates no second
 *  job, and no report is recorded twice. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Action, type ClientMessage, startProxy } from "../postgres/chaos-proxy.ts";
import { until } from "../postgres/client.ts";
import { type PostgresServer, startServer } from "../postgres/server.ts";
import { expectSound, openScene, stream, submitOne, TEST_MS } from "./kit.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startServer({ settings: { shared_buffers: "16MB" } });
});
afterAll(() => server.stop("immediate"));

async function proxied(schema: string) {
  const proxy = await startProxy({ host: "127.0.0.1", port: server.port });
  onTestFinished(() => proxy.close());
  const direct = `${server.url}?schema=${schema}`;
  return { proxy, direct, through: direct.replace(`:${server.port}/`, `:${proxy.port}/`) };
}

/** A named statement of the engine is about to be run. The portal has no name, and the name ends with a NUL. */
const runs =
  (...names: string[]) =>
  (message: ClientMessage) =>
    message.type === "B" && names.some((name) => message.text.startsWith(`\0perdure_${name}\0`));
const commits = (message: ClientMessage) => message.type === "Q" && message.text === "commit";

const TIMES = 2;

const SPOTS = {
  "a submit": runs("insert"),
  "a submit with a key": runs("insert_keyed"),
  "a claim": runs("claim", "claim_one"),
  "a success": runs("succeed"),
  "a retry": runs("retry"),
  "a renewal": runs("renew"),
  "a commit": commits,
};

describe.each<Action>(["cut-before", "cut-after", "cut-reply"])("a connection that is cut (%s)", (action) => {
  it(
    "repeatedly at every kind of statement loses nothing",
    async () => {
      const { proxy, through, direct } = await proxied(action.replace("-", "_"));
      const scene = await openScene({ url: through, lease: "2s" });
      const submits = stream(scene.perdure);
      await submits.more(20);
      const rules = Object.entries(SPOTS).map(
        ([spot, likes]) => [spot, proxy.onClientMessage(likes, action, TIMES)] as const,
      );
      for (const [spot, rule] of rules) await until(`${spot} was cut`, async () => rule.hits() === TIMES);
      for (const [, rule] of rules) rule.remove();
      await submits.more(10);
      await submits.stop();
      expect(submits.refused, "repeatable calls are repeated").toEqual([]);

      const again = { acknowledged: new Map<number, string>(), refused: [] };
      for (const n of submits.acknowledged.keys()) if (n % 2 === 0) await submitOne(scene.perdure, n, true, again);
      for (const [n, id] of again.acknowledged) expect([n, id]).toEqual([n, submits.acknowledged.get(n)]);
      await expectSound(direct, scene, submits);
      expect(scene.aborts).toEqual([]);
    },
    TEST_MS,
  );
});

it(
  "a submit cut after every try has an unknown outcome, and is stored once",
  async () => {
    const { proxy, through, direct } = await proxied("unknown");
    const scene = await openScene({ url: through, lease: "15s" });
    await scene.perdure.submit("job", { n: -1, work: "quick" });
    const anyInsert = (message: ClientMessage) => message.type === "B" && message.text.startsWith("\0perdure_insert");
    const rule = proxy.onClientMessage(anyInsert, "cut-reply");
    const first = {
      acknowledged: new Map<number, string>(),
      refused: [] as { n: number; code: string; message: string }[],
    };
    await Promise.all([0, 1, 2, 3].map((n) => submitOne(scene.perdure, n, n % 2 === 0, first)));
    expect(first.refused.map(({ code }) => code)).toEqual(Array(4).fill("store_unknown"));
    expect(rule.hits(), "each was tried several times").toBeGreaterThan(8);
    rule.remove();

    const again = { acknowledged: new Map<number, string>(), refused: [] };
    for (const n of [0, 2]) await submitOne(scene.perdure, n, true, again);
    const rows = await expectSound(direct, scene, again);
    expect([...rows.keys()].sort()).toEqual([-1, 0, 1, 2, 3]);
  },
  TEST_MS,
);
