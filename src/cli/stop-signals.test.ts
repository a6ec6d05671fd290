/** Signals that stop a process. The tests do not send them: they call the listeners. */
import { expect, it, onTestFinished, vi } from "vitest";
import { SAME_MS, untilStopped } from "./stop-signals.ts";

const NAMES = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** `send` simulates a signal at an instant, and returns what has happened since the start. */
function start() {
  const before = new Map(NAMES.map((name) => [name, process.listeners(name)]));
  const seen: unknown[] = [];
  const { requested, forced } = untilStopped((text) => seen.push(text));
  const added = NAMES.map((name) => {
    const [listener] = process.listeners(name).filter((each) => !before.get(name)?.includes(each));
    return { name, listener: listener as () => void };
  });
  const now = vi.spyOn(performance, "now");
  onTestFinished(() => {
    now.mockRestore();
    for (const { name, listener } of added) process.off(name, listener);
  });
  void requested.then((name) => seen.push(name));
  void forced.then((code) => seen.push(code));
  return async (name: (typeof NAMES)[number], at: number) => {
    now.mockReturnValue(at);
    added.find((each) => each.name === name)?.listener();
    await new Promise((resolve) => setImmediate(resolve));
    return seen;
  };
}

it("the first requests a shutdown, and a second one forces an exit with its own code", async () => {
  const send = start();
  const requested = ["received SIGTERM, shutting down; send it again to exit now", "SIGTERM"];
  expect(await send("SIGTERM", 1_000)).toEqual(requested);
  expect(await send("SIGINT", 1_000 + SAME_MS)).toEqual([...requested, 130]);
  expect(await send("SIGHUP", 9_000)).toEqual([...requested, 130]);
});

it("a repetition right after the first is ignored, as `timeout` signals a process and its group", async () => {
  const send = start();
  const requested = ["received SIGTERM, shutting down; send it again to exit now", "SIGTERM"];
  await send("SIGTERM", 1_000);
  expect(await send("SIGTERM", 1_000 + SAME_MS - 1)).toEqual(requested);
  expect(await send("SIGTERM", 1_000 + SAME_MS)).toEqual([...requested, 143]);
});
