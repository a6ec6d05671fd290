/** Access tokens, and settings shared by all processes on the store. */
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import type { AccessToken } from "../../core/access.ts";
import type { Bench } from "./bench.ts";
import { SECOND, T0 } from "./kit.ts";

function newToken(id: string, parts: Partial<AccessToken> = {}): AccessToken {
  const hash = createHash("sha256").update(id).digest("hex");
  const none = { namespace: null, expiresAt: null, revokedAt: null };
  return { id, name: `of ${id}`, hash, scopes: ["read"], ...none, createdAt: T0, ...parts };
}

export function accessTests(bench: Bench): void {
  test("tokens are listed as they were added, oldest first", async () => {
    const young = newToken("a", { createdAt: T0 + SECOND, expiresAt: T0 + 9 * SECOND, namespace: "n", name: "ü'\"" });
    const old = newToken("b", { scopes: ["submit", "work", "admin"] });
    await bench.store.tokens.add(young);
    await bench.store.tokens.add(old);
    expect(await bench.store.tokens.list()).toEqual([old, young]);
  });

  test("a token whose id or hash exists is refused, and the first one is unchanged", async () => {
    const first = newToken("a");
    await bench.store.tokens.add(first);
    for (const other of [newToken("a", { hash: "0".repeat(64) }), newToken("b", { hash: first.hash }), first]) {
      await expect(bench.store.tokens.add(other)).rejects.toMatchObject({ code: "store_refused" });
    }
    expect(await bench.store.tokens.list()).toEqual([first]);
    await bench.store.tokens.add(newToken("c"));
  });

  test("a token is revoked once, and stays in the list", async () => {
    await bench.store.tokens.add(newToken("a"));
    await bench.store.tokens.add(newToken("b"));
    expect(await bench.store.tokens.revoke("a", T0 + 1)).toBe(true);
    expect(await bench.store.tokens.revoke("a", T0 + 2)).toBe(false);
    expect(await bench.store.tokens.revoke("nobody", T0 + 2)).toBe(false);
    expect((await bench.store.tokens.list()).map(({ id, revokedAt }) => [id, revokedAt])).toEqual([
      ["a", T0 + 1],
      ["b", null],
    ]);
  });

  test("operators' actions leave an event with who requested them, in the namespace concerned", async () => {
    const { store } = bench;
    const all = newToken("a");
    await store.tokens.add(all, "token:ops (x)");
    await store.tokens.add(newToken("b", { namespace: "n", scopes: ["work"] }), "user:me");
    await expect(store.tokens.add(all, "user:twice")).rejects.toMatchObject({ code: "store_refused" });
    await store.tokens.revoke("b", T0 + 1, "token:ops (x)");
    await store.tokens.revoke("b", T0 + 2, "user:twice");
    await store.queues.setPaused("n", "q", true, T0 + 3, "user:me");
    await store.queues.setPaused("n", "q", true, T0 + 4, "user:twice");
    await store.queues.setPaused("n", "q", false, T0 + 5, "user:me");
    const recorded = async (namespace?: string) =>
      (await store.events.page({ after: 0, limit: 100, ...(namespace === undefined ? {} : { namespace }) })).events
        .filter(({ name }) => /^(token|queue)\./.test(name))
        .map(({ name, at, data }) => [name, at - T0, (data as { by?: string }).by, (data as { token?: string }).token]);
    const ofN = [
      ["token.created", 0, "user:me", "b"],
      ["token.revoked", 1, "token:ops (x)", "b"],
      ["queue.paused", 3, "user:me", undefined],
      ["queue.resumed", 5, "user:me", undefined],
    ];
    expect(await recorded()).toEqual([["token.created", 0, "token:ops (x)", "a"], ...ofN]);
    expect(await recorded("n")).toEqual(ofN);
    expect(await recorded("default")).toEqual([]);
    expect(JSON.stringify((await store.events.page({ after: 0, limit: 100 })).events)).not.toContain(all.hash);
  });

  test("a new store has no secret to sign with", async () => {
    expect(await bench.store.settings.formerSecret()).toBeNull();
    await bench.store.settings.eraseFormerSecret();
    if (bench.canReopen) await bench.reopen();
    expect(await bench.store.settings.formerSecret()).toBeNull();
  });

  test("a setting is changed or deleted only with its current value", async () => {
    const { store } = bench;
    expect(await store.settings.replace("key", "a", "b")).toBe(false);
    await store.settings.setIfAbsent("key", "a");
    const others = bench.hasSecond ? [await bench.second(), await bench.second()] : [store, store];
    const answers = await Promise.all(others.map((each, i) => each.settings.replace("key", "a", `b${i}`)));
    expect(answers.filter((isDone) => isDone)).toHaveLength(1);
    const value = `b${answers.indexOf(true)}`;
    expect(await store.settings.get("key")).toBe(value);
    expect(await store.settings.replace("key", "a", null)).toBe(false);
    const record = (at: number) => ({ at, name: "secret.replaced", data: { v: 1, by: "user:me" } });
    expect(await store.settings.replace("key", "a", "c", record(T0))).toBe(false);
    expect(await store.settings.replace("key", value, "c", record(T0 + 1))).toBe(true);
    expect(await store.settings.replace("key", "c", null, record(T0 + 2))).toBe(true);
    expect(await store.settings.get("key")).toBeNull();
    const events = (await store.events.page({ after: 0, limit: 100 })).events;
    expect(events.map(({ name, at, data }) => ({ name, at, data }))).toEqual([record(T0 + 1), record(T0 + 2)]);
  });

  test("a setting keeps its first value for all processes", async () => {
    expect(await bench.store.settings.get("outputs")).toBeNull();
    const others = bench.hasSecond ? [await bench.second(), await bench.second()] : [bench.store, bench.store];
    const answers = await Promise.all(others.map((store, i) => store.settings.setIfAbsent("outputs", `value ${i}`)));
    expect(answers[0]).toBe(answers[1]);
    expect(await bench.store.settings.get("outputs")).toBe(answers[0]);
    expect(await bench.store.settings.setIfAbsent("outputs", "later")).toBe(answers[0]);
    expect(await bench.store.settings.setIfAbsent("other", "ü\n")).toBe("ü\n");
    // Values that the store keeps for itself are not settings.
    expect(await bench.store.settings.get("secret")).toBeNull();
    expect(await bench.store.settings.setIfAbsent("generation", "mine")).toBe("mine");
    if (bench.canReopen) await bench.reopen();
    expect(await bench.store.settings.get("other")).toBe("ü\n");
  });
}
