/** Definitions that nothing names are deleted; those that a run can still need are there when it does. */
import { expect, it, onTestFinished } from "vitest";
import { task } from "../index.ts";
import { openTestEngine } from "../testing/index.ts";

/** A loop over several tools is a playbook within its step. */
const PIPELINE = `
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: pipeline, path: shop/pipeline }
workflow:
  - step: start
    tool:
      - one: { kind: http, url: "http://127.0.0.1/a" }
      - two: { kind: http, url: "http://127.0.0.1/b" }
    loop: { in: [1, 2], iterator: part }
    next: { arcs: [{ step: end }] }
  - step: end
`;

it("a pushed playbook with playbooks within its steps can be started long after the push, also as a step", async () => {
  const kit = await openTestEngine();
  onTestFinished(() => kit.close());
  await kit.perdure.work([task("http", () => ({ status: 200, headers: {}, body: 1 }))]);
  await kit.perdure.pushPlaybook({ source: PIPELINE });
  const above = {
    ...{ apiVersion: "perdure/v1", kind: "Playbook", metadata: { name: "above" } },
    workflow: [
      { step: "later", type: "wait", for: "10h", next: "below" },
      { step: "below", type: "playbook", path: "shop/pipeline" },
    ],
  };
  await kit.advance("3h");
  await kit.perdure.prune();
  const waiting = await kit.perdure.run(above);
  await kit.advance("3h");
  await kit.perdure.prune();
  expect(await kit.runToEnd(waiting)).toMatchObject({ state: "succeeded" });
  expect(await kit.runToEnd(await kit.perdure.run("shop/pipeline"))).toMatchObject({ state: "succeeded" });
});
