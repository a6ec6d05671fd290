/** The defaults that sessions publish for their tasks: whose count, and that sessions without any stay as they were. */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { newSession, T0 } from "./kit.ts";

export function taskDefaultTests(bench: Bench): void {
  const ask = (kind = "work", namespace = "default") => bench.store.taskDefaults(namespace, kind);

  test("are those of the newest session that serves the kind, in its namespace", async () => {
    expect(await ask()).toBeNull();
    const a = await bench.open({ name: "a", defaults: { work: { retry: 3, timeout: "1m" } } });
    expect(await ask()).toEqual({ session: a, worker: "a", options: { retry: 3, timeout: "1m" } });
    const b = await bench.open({
      name: "b",
      kinds: ["work", 'it\'s "x" ✓'],
      defaults: { 'it\'s "x" ✓': { priority: 2 } },
    });
    // A task without defaults is one whose defaults are none.
    expect(await ask()).toEqual({ session: b, worker: "b", options: {} });
    expect(await ask('it\'s "x" ✓')).toEqual({ session: b, worker: "b", options: { priority: 2 } });
    await bench.open({ name: "c", kinds: ["other"], defaults: { other: { retry: 9 } } });
    await bench.open({ name: "d", namespace: "n2", defaults: { work: { retry: 8 } } });
    expect((await ask())?.session).toBe(b);
    expect((await ask("work", "n2"))?.options).toEqual({ retry: 8 });
    expect(await ask("toString")).toBeNull();
  });

  test("are those of a live session before those of one that has ended, and of the last where none lives", async () => {
    const a = await bench.open({ defaults: { work: { retry: 3 } } });
    const b = await bench.open({ defaults: { work: { retry: 4 } } });
    await bench.endSession(b, T0 + 1);
    expect((await ask())?.session).toBe(a);
    await bench.endSession(a, T0 + 2);
    expect((await ask())?.session).toBe(b);
  });

  test("a session that publishes nothing is passed over", async () => {
    const a = await bench.open({ defaults: {} });
    await bench.open({ defaults: null });
    await bench.store.openSession(newSession(), T0);
    expect(await ask()).toEqual({ session: a, worker: "worker-1", options: {} });
    expect((await bench.store.sessions()).length).toBe(3);
  });
}
