import { availableParallelism } from "node:os";
import { expect, it } from "vitest";
import { task } from "../../src/core/task/task.ts";
import { type Gate, gate } from "../kit.ts";
import { openWireBench } from "./kit.ts";

it("five workers share the cpus of their host: a job may take them all, and then runs beside no other that takes any", async () => {
  const bench = await openWireBench();
  const begun: string[] = [];
  const gates = new Map<string, { started: Gate<void>; end: Gate<void> }>();
  const of = (name: string) => {
    if (!gates.has(name)) gates.set(name, { started: gate(), end: gate() });
    return gates.get(name) as { started: Gate<void>; end: Gate<void> };
  };
  const hold = task("hold", async (name: string) => {
    begun.push(name);
    of(name).started.open();
    await of(name).end.passed;
  });
  for (let i = 0; i < 5; i++) await bench.work([hold], { concurrency: 2 });

  const all = { resources: { cpu: availableParallelism() } };
  const first = await bench.submit("hold", "first", all);
  await of("first").started.passed;
  const second = await bench.submit("hold", "second", all);
  const small = await bench.submit("hold", "small", { resources: { cpu: 0.1 } });
  const free = await bench.submit("hold", "free");
  await of("free").started.passed;
  expect(begun).toEqual(["first", "free"]);
  of("first").end.open();
  // Whichever of the two goes first, the other waits for it.
  await Promise.race([of("second").started.passed, of("small").started.passed]);
  expect(begun).toHaveLength(3);
  for (const name of ["second", "small", "free"]) of(name).end.open();
  for (const id of [first, second, small, free]) {
    expect(await bench.ended(id)).toMatchObject({ state: "succeeded", attempt: 1 });
  }
});
