/** "A job is claimed only by a worker with that much cpu and memory left": with two real workers of one host, on both stores.
 *  A job counts as not taken when jobs submitted after it are taken. */
import { describe, expect, it, onTestFinished } from "vitest";
import { task } from "../../src/core/task/task.ts";
import { Entrypoint, type FlusterSubmit, fluster } from "../../src/dialects/fluster/client.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { type Gate, gate, tempFile } from "../kit.ts";
import { newSchema } from "../postgres/kit.ts";
import { STORES, type StoreName } from "./kit.ts";

const WAIT = { timeout: 25 };
const SMALL = { name: "small", resources: { cpu: 1, memory: "1g" } };
const BIG = { name: "big", resources: { cpu: 4, memory: "4g" } };

async function open(store: StoreName, workers: readonly { name: string; resources: object }[]) {
  const perdure = await Perdure.open(store === "sqlite" ? tempFile() : newSchema("fluster").url);
  onTestFinished(() => perdure.close({ grace: 0 }));
  const client = fluster(perdure, { onNote: () => {} }); // memory is not enforced for a task, which causes a note
  const gates = new Map<string, { started: Gate<void>; end: Gate<void> }>();
  const of = (name: string) => {
    if (!gates.has(name)) gates.set(name, { started: gate(), end: gate() });
    return gates.get(name) as { started: Gate<void>; end: Gate<void> };
  };
  /** Runs until its gate is opened. */
  const hold = task("hold", async (name: string, { signal }) => {
    of(name).started.open();
    await Promise.race([
      of(name).end.passed,
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error))),
    ]);
  });
  for (const options of workers) await perdure.work([hold], { concurrency: 10, ...options });

  const ids = new Map<string, string>();
  const idOf = (name: string) => ids.get(name) as string;
  return {
    client,
    async submit(name: string, resources: FlusterSubmit["resources"], more: Partial<FlusterSubmit> = {}) {
      const entrypoint = Entrypoint.fromCallable(hold, name);
      ids.set(name, await client.submit({ entrypoint, name, ...(resources && { resources }), ...more }));
    },
    /** Resolves with the worker of the job when it has started. */
    async started(name: string) {
      await of(name).started.passed;
      return (await client.status(idOf(name))).worker_id;
    },
    state: async (name: string) => (await client.status(idOf(name))).state,
    async finish(name: string) {
      of(name).end.open();
      return client.wait(idOf(name), WAIT);
    },
    idOf,
  };
}

describe.each(STORES)("resources of fluster's jobs on %s", (store) => {
  it("are taken of a host while they run, and given back", async () => {
    // More than any machine has, so that these values are the host's.
    const all = { cpu: 4_000, memory: "512t" };
    const { submit, started, state, finish } = await open(store, [
      { name: "one", resources: all },
      { name: "two", resources: all },
    ]);
    await submit("a", { cpu: 3_000, memory: "2g" });
    await started("a");
    await submit("b", { cpu: 2_000, memory: "512m" }); // leaves 1000, whichever worker claims it
    await submit("c", { cpu: 1_000, memory: "512m" });
    await started("c");
    await submit("d", { cpu: 1_000, memory: "1m" }); // nothing is left
    await submit("free", undefined); // a job without resources always fits
    await started("free");
    expect(await Promise.all(["b", "d"].map(state))).toEqual(["PENDING", "PENDING"]);
    expect(await finish("a")).toMatchObject({ state: "SUCCEEDED" });
    await started("b");
    await started("d");
    for (const name of ["b", "c", "d", "free"]) await finish(name);
  });

  it("are memory as well as cpu", async () => {
    const { submit, started, state, finish } = await open(store, [SMALL, BIG]);
    await submit("a", { memory: "3g" });
    expect(await started("a")).toBe("big");
    await submit("b", { memory: "2g" });
    await submit("c", { cpu: 4, memory: "1g" });
    expect(await started("c")).toBe("big");
    expect(await state("b")).toBe("PENDING");
    await finish("a");
    expect(await started("b")).toBe("big");
    await finish("b");
    await finish("c");
  });

  it("that no worker has are waited for until the scheduling timeout", async () => {
    const { submit, client, idOf, started, finish } = await open(store, [SMALL]);
    await submit(
      "huge",
      { cpu: 64, memory: "512g" },
      { scheduling_timeout_seconds: 1, retry: { max_retries_failure: 3 } },
    );
    await submit("fits", { cpu: 1, memory: "512m" });
    expect(await started("fits")).toBe("small");
    expect(await client.wait(idOf("huge"), WAIT)).toMatchObject({
      ...{ state: "UNSCHEDULABLE", error: "Scheduling timeout exceeded (1s)", failure_count: 0, attempts: [] },
    });
    await finish("fits");
  });

  it("are given back by a job that is terminated", async () => {
    const { submit, client, idOf, started, finish } = await open(store, [SMALL]);
    await submit("a", { cpu: 1, memory: "1g" });
    await started("a");
    await submit("b", { cpu: 1, memory: "1g" });
    await client.terminate(idOf("a"));
    expect(await client.wait(idOf("a"), WAIT)).toMatchObject({ state: "KILLED" });
    expect(await started("b")).toBe("small");
    await finish("b");
  });
});
