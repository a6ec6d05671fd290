/** While the store is full or away each request fails, and the log does not grow with them. */
import { expect, it, onTestFinished } from "vitest";
import { PerdureError } from "../../src/core/errors.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { startServer } from "./kit.ts";

it("a full store is one line when it begins, one when it is over, and a count, without stacks", async () => {
  const trouble = { error: null as PerdureError | null };
  const skip = { ms: 0 };
  const server = await startServer({
    clock: { ...systemClock, monotonic: () => systemClock.monotonic() + skip.ms },
    wrapStore: (store) => ({
      ...store,
      insert: (...args) => (trouble.error === null ? store.insert(...args) : Promise.reject(trouble.error)),
      beat: (...args) => (trouble.error === null ? store.beat(...args) : Promise.reject(trouble.error)),
    }),
  });
  onTestFinished(server.close);
  const submit = () => server.call("POST", "/v1/jobs", { body: { kind: "k", input: null } });
  const said = () =>
    server.logged
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ level }) => level !== "debug" && level !== "info");
  const refuse = async (code: "store_full" | "store_unavailable", count: number) => {
    trouble.error = new PerdureError(code, "the database has no room left", { cause: new Error("53100") });
    for (let i = 0; i < count; i++) expect((await submit()).status).toBeGreaterThanOrEqual(500);
  };
  await refuse("store_full", 40);
  expect((await server.call("GET", "/v1/status")).body).toMatchObject({
    storeTrouble: { kind: "full", cause: "the database has no room left", requests: 40 },
  });
  for (let i = 0; i < 5; i++) await server.engine.reap().catch(() => {});
  await refuse("store_unavailable", 10);
  expect(server.engine.storeState.trouble).toMatchObject({ kind: "unavailable" });
  trouble.error = null;
  expect((await submit()).status).toBe(201);
  skip.ms += 60_000;
  await server.engine.reap();
  expect(server.engine.storeState.trouble).toBeNull();
  expect((await server.call("GET", "/v1/status")).body).toMatchObject({ storeTrouble: null });
  expect(said()).toMatchObject([
    { level: "error", message: "store.trouble", kind: "full", cause: "the database has no room left" },
    { level: "error", message: "store.trouble_changed", kind: "unavailable", was: "full" },
    { level: "warn", message: "store.trouble_over", requests: 50 },
  ]);
  expect(server.logged.join("")).not.toContain("    at ");
  // Each request can still be found by its id.
  expect(server.logged.filter((line) => line.includes('"request failed"'))).toHaveLength(50);
});
