/** F22, one round: the primary dies under load, its synchronous standby takes over behind the same address. All that
 *  was acknowledged is there, and work goes on by itself. `npm run test:failover` does many rounds, with figures. */
import { expect, it, onTestFinished } from "vitest";
import { startPair } from "../failover/pair.ts";
import { until } from "../postgres/client.ts";
import { expectSound, openScene, stream, TEST_MS } from "./kit.ts";

it(
  "a failover to a synchronous standby loses nothing that was acknowledged, and is waited out",
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
    // How long the promotion takes is PostgreSQL's affair: calls wait for five seconds.
    for (const { code } of submits.refused) expect(["store_unavailable", "store_unknown"]).toContain(code);
    if (promotedAt - crashedAt < 3_500) expect(submits.refused).toEqual([]);
    await expectSound(`${pair.direct}?schema=failover`, scene, submits);
  },
  TEST_MS,
);
