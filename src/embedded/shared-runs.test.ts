/** Runs that two engines on one database advance at once: nothing is done twice, and nothing stays undone. */
import { expect, it, onTestFinished } from "vitest";
import { tempFile } from "../../test/kit.ts";
import { newSchema } from "../../test/postgres/kit.ts";
import { Perdure, task } from "../index.ts";

const RUNS = 30;

const playbook = {
  ...{ apiVersion: "perdure/v1", kind: "Playbook", metadata: { name: "diamond" } },
  workload: { parts: [1, 2, 3, 4, 5] },
  workflow: [
    { step: "start", next: ["a", "each"] },
    { step: "a", type: "task", task: "double", data: { n: 21 }, next: "pause" },
    { step: "pause", type: "wait", for: "20ms", next: "end" },
    {
      ...{ step: "each", type: "task", task: "double", data: { n: "{{ part }}" }, next: "end" },
      loop: { in: "{{ workload.parts }}", iterator: "part", concurrency: 2 },
    },
    { step: "end", type: "task", task: "double", data: { n: "{{ a + each | sum }}" } },
  ],
};

const stores = [
  ["SQLite", () => ({ url: tempFile() })],
  ["PostgreSQL", () => newSchema("shared")],
] as const;

it.each(stores)("on %s: two engines end all of them, and run each step once", async (_, make) => {
  const options = make();
  const ran = new Map<string, number>();
  const double = task("double", ({ n }: { n: number }, { jobId }) => {
    ran.set(jobId, (ran.get(jobId) ?? 0) + 1);
    return 2 * n;
  });
  const engines = await Promise.all([Perdure.open(options), Perdure.open(options), Perdure.open(options)]);
  onTestFinished(async () => {
    await Promise.all(engines.map((engine) => engine.close({ grace: 0 })));
  });
  const [one, two, third] = engines as [Perdure, Perdure, Perdure];
  await Promise.all([one, two].map((engine) => engine.work([double], { concurrency: 10 })));
  // The third only starts some, and closes: whatever it has begun, the others finish.
  const handles = await Promise.all(Array.from({ length: RUNS }, (_, i) => [one, two, third][i % 3]?.run(playbook)));
  await third.close();
  for (const handle of handles) {
    const run = await one.runHandle((handle as { id: string }).id);
    expect(await run.result({ timeout: "30s" })).toBe(2 * (42 + 2 * 15));
    const steps = await run.steps();
    expect(steps.filter(({ step, state }) => step === "end" && state === "succeeded")).toHaveLength(1);
    const places = steps.map(({ step, visit, item, try: n }) => `${step} ${visit} ${item} ${n}`);
    expect(new Set(places).size).toBe(places.length);
  }
  expect(ran.size).toBe(RUNS * 7);
  expect([...ran.values()].every((times) => times === 1)).toBe(true);
});
