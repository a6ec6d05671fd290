/** F22, one round: the primary is killed under load, and its synchronous standby takes over at the same address.
 *  Everything acknowledged exists, and work continues by itself. `npm run test:failover` does many rounds, with
 *  figures. */
import { expect, it, onTestFinished } from "vitest";
import { startPair } from "../failover/pair.ts";
import { until } from "../postgres/client.ts";
import { expectSound, openScene, stream, TEST_MS } from "./kit.ts";

it(
  "a failover to a synchronous standby loses nothing acknowledged, and calls wait for it",
  async () => {
    const pair = await startPair();
    onTestFinished(() => pair.stop());
    const scene = await openScene({ url: `${pair.url}?schema=failover`, lease: "2s" });
    const submits = stream(scene.perdure);
    await submits.more(100);
    const { crashedAt, promotedAt } = await pair.failOver("before the promotion");
    const begun = scene.starts.length;
    await submits.more(50);
    await until("jobs are run again", async () => scene.starts.length > begun);
    expect(performance.now() - promotedAt).toBeLessThan(15_000); // 5 s is the goal; the script measures
    await submits.stop();
    // The duration of the promotion depends on PostgreSQL: calls wait for five seconds.
    for (const { code } of submits.refused) expect(["store_unavailable", "store_unknown"]).toContain(code);
    if (promotedAt - crashedAt < 3_500) expect(submits.refused).toEqual([]);
    await expectSound(`${pair.direct}?schema=failover`, scene, submits);
  },
  TEST_MS,
);
