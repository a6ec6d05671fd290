/** The source of a server's signing secrets, and their fingerprint in the database. */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { systemClock } from "../../lib/system-clock.ts";
import { fingerprint } from "../../server/key-ring.ts";
import { openStore } from "../../store/open.ts";
import type { Store } from "../../store/store.ts";
import { parseSecrets, readSecretFile, rotated, writeSecretFile } from "./secret-file.ts";
import { SETTING, Signing, type SigningParts } from "./signing.ts";

const DAY = 86_400_000;

/** Two servers' data directories over one store. */
async function bench() {
  const dir = mkdtempSync(join(tmpdir(), "perdure-secret-"));
  const url = join(dir, "jobs.db");
  const store = await openStore({ url, clock: systemClock, random: Math.random, newSecret: () => "n".repeat(40) });
  const time = { skipped: 0 };
  const clock = {
    ...systemClock,
    now: () => systemClock.now() + time.skipped,
    monotonic: () => systemClock.monotonic() + time.skipped,
    after: () => () => {}, // `poll` is called by hand
  };
  const logged: string[] = [];
  onTestFinished(async () => {
    await store.close();
    rmSync(dir, { recursive: true });
  });
  const file = (name: string) => join(dir, `${name}-secret`);
  const start = (name: string, more: Partial<SigningParts> = {}) =>
    Signing.open({
      ...{ store, clock, file: file(name), given: [], shown: "the database" },
      log: (_, message, fields) => void logged.push(`${message} ${JSON.stringify(fields)}`),
      ...more,
    });
  const copy = (from: string, to: string) => writeFileSync(file(to), readFileSync(file(from)), { mode: 0o600 });
  const rotate = (name: string, options: { afterMs?: number; graceMs?: number } = {}) => {
    const now = clock.now();
    const { afterMs = 0, graceMs = DAY } = options;
    const secrets = rotated(readSecretFile(file(name)) ?? [], { now, signsFrom: now + afterMs, graceMs });
    writeSecretFile(file(name), secrets, { replace: true });
  };
  return { dir, url, store, time, clock, logged, file, start, copy, rotate };
}

/** A store as an earlier version left it. */
function withFormer(store: Store, secret: string) {
  let former: string | null = secret;
  return Object.assign(Object.create(store), {
    settings: {
      ...store.settings,
      formerSecret: async () => former,
      eraseFormerSecret: async () => {
        former = null;
      },
    },
  }) as Store;
}

describe("the signing secret of a server", () => {
  it("is created at the first start, readable only for its owner, and is not in the database", async () => {
    const { file, start, url, store, logged } = await bench();
    const signing = await start("a");
    expect(statSync(file("a")).mode & 0o777).toBe(0o600);
    const [secret] = readSecretFile(file("a")) ?? [];
    expect(secret?.text).toMatch(/^pds_[A-Za-z0-9_-]{43}$/);
    expect(await store.settings.get(SETTING)).toBe(fingerprint(secret?.text as string));
    for (const part of [url, `${url}-wal`]) expect(readFileSync(part).includes(secret?.text as string)).toBe(false);
    expect(logged.join()).not.toContain(secret?.text);
    const again = await start("a");
    expect(again.keys.check("x", signing.keys.sign("x"))).toBe("current");
  });

  it("must be the same for all servers of a database", async () => {
    const { file, start, copy } = await bench();
    const { keys } = await start("a");
    await expect(start("b")).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(
        /b-secret does not exist.*copy the file `secret`.*PERDURE_SECRET.*rotate-secret --force/,
      ),
    });
    expect(existsSync(file("b"))).toBe(false);
    await expect(start("b", { given: ["x".repeat(40)] })).rejects.toThrow(
      /^PERDURE_SECRET does not hold the signing secret/,
    );
    writeFileSync(file("b"), "y".repeat(40), { mode: 0o600 });
    await expect(start("b")).rejects.toThrow(/b-secret does not hold the signing secret of the other servers/);
    copy("a", "b");
    expect((await start("b")).keys.check("x", keys.sign("x"))).toBe("current");
    const [{ text } = { text: "" }] = readSecretFile(file("a")) ?? [];
    expect((await start("c", { given: [text] })).keys.check("x", keys.sign("x"))).toBe("current");
    expect(existsSync(file("c"))).toBe(false);
  });

  it("is created once if two servers of a new database start at the same time", async () => {
    const { file, start } = await bench();
    const answers = await Promise.allSettled([start("a"), start("b")]);
    expect(answers.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    expect([existsSync(file("a")), existsSync(file("b"))].filter((is) => is)).toHaveLength(1);
  });

  it("is replaced while servers run, at the same instant on all that have the file", async () => {
    const { store, start, copy, rotate, time } = await bench();
    const a = await start("a");
    copy("a", "b");
    const b = await start("b");
    const before = a.keys.sign("x");
    rotate("a", { afterMs: 60_000 });
    await a.poll();
    expect(a.keys.check("x", before)).toBe("current");
    copy("a", "b");
    await b.poll();
    time.skipped = 60_000;
    for (const one of [a, b]) {
      await one.poll();
      expect(one.keys.check("x", before)).toBe("former");
      expect(one.keys.check("x", a.keys.sign("x"))).toBe("current");
      expect(one.keys.missing).toBeNull();
    }
    expect(await store.settings.get(SETTING)).toBe(b.keys.current.print);
    const events = (await store.events.page({ after: 0, limit: 100 })).events;
    expect(events.map(({ name, data }) => [name, data])).toEqual([["secret.replaced", { v: 1, by: "server" }]]);
    time.skipped += DAY;
    expect(b.keys.check("x", before)).toBeNull();
  });

  it("takes a server without the new one out of service until it has it", async () => {
    const { start, copy, rotate, logged } = await bench();
    const a = await start("a");
    copy("a", "b");
    const b = await start("b");
    rotate("a");
    await a.poll();
    await b.poll();
    expect(b.keys.missing).toBe(a.keys.current.print);
    expect(() => b.keys.check("x", a.keys.sign("x"))).toThrow(expect.objectContaining({ code: "signing_key_missing" }));
    expect(a.keys.check("x", b.keys.sign("x"))).toBe("former");
    await b.poll();
    expect(logged.filter((line) => line.startsWith("other servers sign"))).toHaveLength(1);
    copy("a", "b");
    await b.poll();
    expect([b.keys.missing, b.keys.check("x", a.keys.sign("x"))]).toEqual([null, "current"]);
  });

  it("is dropped early when no older session is left", async () => {
    const { store, start, rotate, time, clock } = await bench();
    const { keys, poll } = await start("a").then((one) => ({ keys: one.keys, poll: () => one.poll() }));
    const before = keys.sign("x");
    const session = {
      ...{ id: "ses_1", namespace: "default", name: "w", host: "h", pid: 1, process: null, kinds: ["k"], queues: null },
      ...{ labels: {}, slots: 1, leaseMs: 15_000 },
    };
    await store.sessions.open(session as never, clock.now());
    rotate("a");
    time.skipped = 60_000;
    await poll();
    expect(keys.check("x", before)).toBe("former");
    await store.sessions.close("ses_1", clock.now());
    time.skipped += 60_000;
    await poll();
    expect(keys.check("x", before)).toBeNull();
  });

  it("survives a restart in the middle of a change, also after its grace", async () => {
    const { store, start, rotate, time } = await bench();
    (await start("a")).close();
    rotate("a", { graceMs: 1_000 });
    time.skipped = DAY;
    const { keys } = await start("a");
    expect(await store.settings.get(SETTING)).toBe(keys.current.print);
  });

  it("of an earlier version is moved out of the database, replaced, and accepted for a day", async () => {
    const { store, start, file, time, logged } = await bench();
    const former = "f".repeat(32);
    const old = withFormer(store, former);
    const { keys } = await start("a", { store: old });
    expect(await old.settings.formerSecret()).toBeNull();
    const [first, second] = readSecretFile(file("a")) ?? [];
    expect(first?.text).not.toBe(former);
    expect(second).toMatchObject({ text: former, isUnnamed: true, until: expect.any(Number) });
    expect(keys.current.print).toBe(fingerprint(first?.text as string));
    expect(logged.join()).not.toContain(former);
    const { createHmac } = await import("node:crypto");
    const shown = createHmac("sha256", former).update("x").digest("base64url");
    expect(keys.check("x", shown)).toBe("former");
    time.skipped = DAY;
    expect(keys.check("x", shown)).toBeNull();
    // With a secret in the environment it goes into the file all the same, to be accepted.
    const given = await start("b", { store: withFormer(store, former), given: [first?.text as string] });
    expect(given.keys.check("x", shown)).toBe("former");
    expect(given.keys.current.print).toBe(keys.current.print);
  });
});

describe("the file of signing secrets", () => {
  it("is refused if others can read it, and the loaded secrets stay in use until it is fixed", async () => {
    const { start, file, logged } = await bench();
    const one = await start("a");
    const kept = readFileSync(file("a"));
    chmodSync(file("a"), 0o644);
    await expect(start("a")).rejects.toThrow(/can be read by others \(mode 0644\).*chmod 600.*rotate-secret/);
    writeFileSync(file("a"), "");
    await one.poll();
    expect(one.keys.check("x", one.keys.sign("x"))).toBe("current");
    await one.poll();
    expect(logged.filter((line) => line.startsWith("cannot read the signing secrets"))).toHaveLength(1);
    expect(one.keys.fault).toMatch(/a-secret can be read by others/); // for `doctor`: its next start fails
    writeFileSync(file("a"), kept);
    chmodSync(file("a"), 0o600);
    await one.poll();
    expect(one.keys.fault).toBeNull();
  });

  it("is accepted as a credential of systemd, which its group may read", async () => {
    const { dir, file } = await bench();
    writeFileSync(file("a"), "s".repeat(32));
    chmodSync(file("a"), 0o440);
    expect(() => readSecretFile(file("a"))).toThrow(/can be read by others/);
    vi.stubEnv("CREDENTIALS_DIRECTORY", dir);
    expect(readSecretFile(file("a"))).toHaveLength(1);
  });

  it("is reported with its line, and never with its secret", () => {
    const good = "s".repeat(32);
    for (const [text, said] of [
      ["short", /^f:1: the secret is not 32 to 200 characters/],
      [`# note\n\n${good} until soon`, /^f:3: a time must be written as 2026-01-31T12:00:00Z/],
      [`${good} forever`, /^f:1: only `from TIME`, `until TIME` and `unnamed` are allowed/],
      ["# note\n", /holds no secret: .* remove it and run `perdure token rotate-secret --force`/],
    ] as const) {
      expect(() => parseSecrets(text, "f")).toThrow(said);
      expect(() => parseSecrets(text, "f")).not.toThrow(good);
    }
    expect(parseSecrets(`${good}\r\n`, "f")).toEqual([{ text: good, signsFrom: null, until: null }]);
  });
});
