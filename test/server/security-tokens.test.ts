/** Tokens as the server knows them: also when another process changed them, and when the store is away. */
import { randomBytes } from "node:crypto";
import { describe, expect, it, onTestFinished } from "vitest";
import type { AccessToken } from "../../src/core/access.ts";
import { PerdureError } from "../../src/core/errors.ts";
import { createLog } from "../../src/server/log.ts";
import { hashOf, newToken, TokenBook } from "../../src/server/tokens.ts";
import { VirtualClock } from "../../src/testing/virtual-clock.ts";
import { startServer } from "./kit.ts";

/** What a store keeps, in reach of the test: another process writes it, or it is away. */
async function openBook() {
  const clock = new VirtualClock();
  const world = { stored: [] as AccessToken[], away: false, reads: 0 };
  const guard = () => {
    if (world.away) throw new PerdureError("store_unavailable", "away");
  };
  const store = {
    tokens: {
      async add(token: AccessToken) {
        guard();
        world.stored = [...world.stored, token];
      },
      async list() {
        world.reads += 1;
        guard();
        return world.stored;
      },
      async revoke(id: string, now: number) {
        guard();
        const had = world.stored.some((token) => token.id === id && token.revokedAt === null);
        world.stored = world.stored.map((token) =>
          token.id === id ? { ...token, revokedAt: token.revokedAt ?? now } : token,
        );
        return had;
      },
    },
  };
  const logged: string[] = [];
  const log = createLog({ write: (line) => void logged.push(line), now: clock.now, form: "text" });
  const book = await TokenBook.open({ store, clock, randomBytes, log });
  onTestFinished(() => book.close());
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  const advance = async (ms: number) => {
    clock.moveTo(clock.now() + ms);
    await settled();
  };
  const elsewhere = (over: Partial<AccessToken> = {}): string => {
    const { id, token } = newToken(randomBytes);
    const rest = {
      name: "x",
      scopes: ["read"] as const,
      namespace: null,
      createdAt: 0,
      expiresAt: null,
      revokedAt: null,
    };
    world.stored = [...world.stored, { ...rest, id, hash: hashOf(token), ...over }];
    return token;
  };
  return { clock, world, book, logged, advance, elsewhere };
}

const WISH = { name: "n", scopes: ["read"] as const, namespace: null, expiresInMs: null };

describe("a token", () => {
  it("has a public id and a secret of 256 bits", () => {
    const { id, token } = newToken(randomBytes);
    expect(token).toMatch(/^pdr_[0-9a-z]{8}_[A-Za-z0-9_-]{43}$/);
    expect(token.startsWith(`pdr_${id}_`)).toBe(true);
    expect(new Set(Array.from({ length: 100 }, () => newToken(randomBytes).token)).size).toBe(100);
  });

  it("is known at once where it was made, and within two seconds where it was made elsewhere", async () => {
    const { book, elsewhere, advance } = await openBook();
    const here = await book.create(WISH);
    expect((await book.verify(here.token))?.id).toBe(here.info.id);
    const there = elsewhere();
    await advance(2_000);
    expect(await book.verify(there)).not.toBeNull();
  });

  it("with an unknown id makes the server read the store, but not too often", async () => {
    const { book, elsewhere, advance, world } = await openBook();
    await advance(300);
    const there = elsewhere();
    expect(await book.verify(there)).not.toBeNull();
    const { reads } = world;
    for (let i = 0; i < 50; i++) expect(await book.verify(newToken(randomBytes).token)).toBeNull();
    expect(world.reads).toBe(reads);
  });

  it("is refused when it is revoked elsewhere, revoked here, or over", async () => {
    const { book, world, advance } = await openBook();
    const [first, second, third] = [
      await book.create(WISH),
      await book.create(WISH),
      await book.create({ ...WISH, expiresInMs: 5_000 }),
    ];
    world.stored = world.stored.map((token) => (token.id === first.info.id ? { ...token, revokedAt: 1 } : token));
    await advance(2_000);
    expect(await book.verify(first.token)).toBeNull();
    expect(await book.revoke(second.info.id)).toBe(true);
    expect(await book.verify(second.token)).toBeNull();
    expect(await book.revoke(second.info.id)).toBe(false);
    expect(await book.verify(third.token)).not.toBeNull();
    await advance(3_000);
    expect(await book.verify(third.token)).toBeNull();
  });

  it("stays valid during an outage of the store, which is logged once", async () => {
    const { book, world, logged, advance } = await openBook();
    const { token } = await book.create(WISH);
    world.away = true;
    for (let i = 0; i < 5; i++) await advance(2_000);
    expect(await book.verify(token)).not.toBeNull();
    expect(await book.verify(newToken(randomBytes).token)).toBeNull();
    expect(logged.filter((line) => line.includes("cannot read tokens"))).toHaveLength(1);
    await expect(book.create(WISH)).rejects.toMatchObject({ code: "store_unavailable" });
    world.away = false;
    await advance(2_000);
    expect(await book.verify(token)).not.toBeNull();
  });

  it("must have the right format", async () => {
    const { book } = await openBook();
    const { token } = await book.create(WISH);
    for (const wrong of [
      "",
      "pdr_",
      ` ${token}`,
      `${token}\n`,
      token.toUpperCase(),
      token.slice(0, -1),
      `${token}A`,
      "__proto__",
    ]) {
      expect(await book.verify(wrong)).toBeNull();
    }
  });
});

describe.each(["sqlite", "postgres"] as const)("two servers on one store (%s)", (store) => {
  it("know each other's tokens, and refuse what the other revoked", async () => {
    const first = await startServer({ store });
    const second = await startServer({ url: first.storeUrl });
    onTestFinished(async () => {
      await second.close();
      await first.close();
    });
    const made = await first.call("POST", "/v1/tokens", { body: { name: "shared", scopes: ["read"] } });
    const { token, info } = made.body;
    await expect.poll(async () => (await second.call("GET", "/v1/queues", { token })).status).toBe(200);
    expect((await second.call("GET", "/v1/status", { token })).body).toMatchObject({ store, now: expect.any(Number) });
    expect((await second.call("DELETE", `/v1/tokens/${info.id}`)).status).toBe(204);
    await expect.poll(async () => (await first.call("GET", "/v1/queues", { token })).status).toBe(401);
    expect((await first.call("GET", "/v1/tokens")).body.tokens).toContainEqual({
      ...info,
      revokedAt: expect.any(Number),
    });
  });
});

describe("a store that takes no writes", () => {
  it("is reported with its path to an admin of all namespaces alone", async () => {
    const cause = "cannot use /srv/perdure/jobs.db: disk I/O error";
    const server = await startServer({
      wrapStore: (store) => Object.assign(Object.create(store), { fault: () => ({ kind: "disk", cause }) }),
    });
    onTestFinished(server.close);
    const shown = async (token: string) => (await server.call("GET", "/v1/status", { token })).body.storeFault;
    expect(await shown(server.admin)).toBe(cause);
    for (const wish of [{ scopes: ["read"] }, { scopes: ["admin"], namespace: "n" }] as const) {
      expect(await shown(await server.token(wish))).toBe("the disk or the file of the database failed");
    }
  });
});
