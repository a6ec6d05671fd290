/** Playbooks and paths that are made to do harm: each ends in an error that says what is wrong, and no run is left behind. */
import { expect, it, onTestFinished } from "vitest";
import { openTestEngine, type TestEngine } from "../testing/index.ts";

async function open(): Promise<TestEngine> {
  const kit = await openTestEngine();
  onTestFinished(() => kit.close());
  return kit;
}

function document(workflow: readonly object[], more: object = {}) {
  return { apiVersion: "perdure/v1", kind: "Playbook", metadata: { name: "hostile" }, ...more, workflow };
}

it.each(["constructor", "__proto__", "toString"])("does not find a playbook at the path %s", async (path) => {
  const kit = await open();
  const fixed = document([{ step: "a", type: "playbook", path }]);
  await expect(kit.perdure.run(fixed)).rejects.toMatchObject({ code: "playbook_not_found" });
  const filled = document([{ step: "a", type: "playbook", path: "{{ path }}" }], { workload: { path } });
  const info = await kit.runToEnd(await kit.perdure.run(filled));
  expect(info).toMatchObject({ state: "failed", failure: { message: expect.stringContaining("does not exist") } });
});

it("refuses a playbook that takes long to check, and files that do together", async () => {
  const kit = await open();
  const arcs = (i: number) => Array.from({ length: 15 }, (_, j) => `s${(i + j + 1) % 1_000}`);
  const dense = document(Array.from({ length: 1_000 }, (_, i) => ({ step: `s${i}`, next: arcs(i) })));
  await expect(kit.perdure.run(dense)).rejects.toThrow("15000 arcs; a playbook has at most 10000");
  const values = document([{ step: "a", data: { list: Array.from({ length: 100_000 }, (_, i) => i) } }]);
  const { problems } = await kit.perdure.validatePlaybook({ source: JSON.stringify(values) });
  expect(problems).toMatchObject([{ message: "too many values; split the file" }]);
  const text = `# ${"x".repeat(200_000)}\n${JSON.stringify(document([{ step: "a" }]))}`;
  const files = Object.fromEntries(["a", "b", "c", "d", "e", "f"].map((name) => [`./${name}.yaml`, text]));
  await expect(kit.perdure.run({ source: text, files })).rejects.toThrow("at most 1048576 are allowed");
});

it("lists runs with much data a few at a time", async () => {
  const kit = await open();
  const waiting = document([{ step: "a", type: "wait", for: "1h" }]);
  for (let i = 0; i < 12; i++) await kit.perdure.run(waiting, { text: "x".repeat(900_000) });
  await kit.settled();
  const seen: string[] = [];
  const sizes: number[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await kit.perdure.runs(cursor === undefined ? {} : { cursor });
    seen.push(...page.runs.map(({ id }) => id));
    sizes.push(page.runs.length);
    cursor = page.next;
  }
  expect(new Set(seen).size).toBe(12);
  expect(seen).toHaveLength(12);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(8);
});

it.each([
  [{ set: "x" }, "redrive.set"],
  [{ set: [null] }, "redrive.set[0]"],
  [{ from: { a: 1 } }, "redrive.from"],
])("refuses the redrive %j with the field that is wrong", async (options, path) => {
  const kit = await open();
  const run = await kit.perdure.run(
    document([{ step: "a", type: "wait", until: "{{ at }}" }], { workload: { at: "never" } }),
  );
  expect(await kit.runToEnd(run)).toMatchObject({ state: "failed" });
  await expect(run.redrive(options as never)).rejects.toMatchObject({ code: "invalid_config", path });
});
