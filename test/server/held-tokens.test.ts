/** What a token holds open ends with it: claims, notices, waits, streams and downloads; and usage is for whoever holds the
 *  attempt. */
import { describe, expect, it, onTestFinished } from "vitest";
import { HEADER } from "../../src/contract/wire.ts";
import type { ClaimedJob } from "../../src/core/worker-protocol.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { TokenBook } from "../../src/server/tokens.ts";
import type { Store } from "../../src/store/store.ts";
import { gate } from "../kit.ts";
import { type KitOptions, startServer, type TestServer } from "./kit.ts";
import { DONE, openWorker } from "./worker-kit.ts";

/** Longer than any of these tests: what ends earlier was ended. */
const HELD_MS = 30_000;

async function start(options: KitOptions = {}): Promise<TestServer> {
  const server = await startServer(options);
  onTestFinished(server.close);
  return server;
}

/** Resolves when the server holds this many calls that listen for the end of their token. */
function counted(server: TestServer) {
  let held = 0;
  let wake = () => {};
  const onEnd = server.tokens.onEnd.bind(server.tokens);
  server.tokens.onEnd = (...given) => {
    held += 1;
    wake();
    return onEnd(...given);
  };
  return async (count: number) => {
    while (held < count) await new Promise<void>((resolve) => (wake = resolve));
  };
}

const idOf = (token: string) => token.split("_")[1] as string;

describe("a token that is revoked", () => {
  it("ends at once what it holds open: claims, notices, waits and streams", async () => {
    const server = await start();
    const token = await server.token({ scopes: ["work", "read"] });
    const worker = await openWorker(server, {}, { token });
    const other = (await server.call("POST", "/v1/jobs", { body: { kind: "other" } })).body.id as string;
    const isHeld = counted(server);
    const held = [
      worker.call("POST", "/claims", { body: { limit: 1, waitMs: HELD_MS } }),
      worker.call("POST", "/claims", { body: { limit: 1, waitMs: HELD_MS, claimId: "c1" } }),
      worker.call("POST", "/notices", { body: { waitMs: HELD_MS } }),
      server.call("POST", "/v1/jobs/wait", { token, body: { jobs: [{ id: other, chapter: 1 }], waitMs: HELD_MS } }),
    ];
    const accept = { accept: "text/event-stream" };
    const streams = [server.call("GET", "/v1/events", { token, headers: accept })];
    await isHeld(5);
    expect((await server.call("DELETE", `/v1/tokens/${idOf(token)}`)).status).toBe(204);
    for (const reply of await Promise.all(held)) {
      expect(reply).toMatchObject({ status: 401, body: { code: "unauthorized" } });
    }
    for (const stream of await Promise.all(streams)) expect(stream.status).toBe(200); // and its end has come
    const mine = (await server.call("POST", "/v1/jobs", { body: { kind: "k" } })).body.id as string;
    expect((await server.call("GET", `/v1/jobs/${mine}`)).body).toMatchObject({ state: "queued", attempt: 0 });
  });

  it.each([{ claimId: "c1" }, {}])("releases a job that was claimed for it meanwhile (%o)", async (body) => {
    const claimed = gate();
    const go = gate();
    const wrapStore = (store: Store): Store => ({
      ...store,
      async claim(...given) {
        const answers = await store.claim(...given);
        if (answers.every(({ jobs }) => jobs.length === 0)) return answers;
        claimed.open();
        await go.passed;
        return answers;
      },
    });
    const server = await start({ wrapStore, leaseMs: 3_600_000 });
    const token = await server.token({ scopes: ["work"] });
    const worker = await openWorker(server, {}, { token });
    const { id } = (await server.call("POST", "/v1/jobs", { body: { kind: "k" } })).body;
    const claim = worker.call("POST", "/claims", { body: { limit: 1, waitMs: HELD_MS, ...body } });
    await claimed.passed;
    expect(await server.tokens.revoke(idOf(token))).toBe(true);
    go.open();
    const answer = await claim;
    expect(answer).toMatchObject({ status: 401, body: { code: "unauthorized" } });
    expect(answer.text).not.toContain(id);
    expect((await server.call("GET", `/v1/jobs/${id}`)).body).toMatchObject({ state: "queued", attempt: 1, losses: 0 });
  });

  it("ends what another server holds for it when that one reads the tokens again", async () => {
    const timers: (() => void)[] = [];
    const clock: Clock = {
      ...systemClock,
      after: (ms, call, options) => {
        if (ms !== 2_000) return systemClock.after(ms, call, options);
        timers.push(call); // the test decides when it reads again
        return () => {};
      },
    };
    const server = await start();
    const elsewhere = await TokenBook.open({
      ...{ store: server.store, clock, log: () => {} },
      randomBytes: (count) => new Uint8Array(count),
    });
    onTestFinished(() => elsewhere.close());
    const token = await server.token();
    await elsewhere.refresh();
    let ended = 0;
    elsewhere.onEnd(idOf(token), () => (ended += 1));
    await server.tokens.revoke(idOf(token));
    expect(ended).toBe(0);
    timers.at(-1)?.();
    await expect.poll(() => ended).toBe(1);
  });
});

it("a token that is revoked here ends what it holds also while the store cannot be read", async () => {
  const server = await start();
  const token = await server.token();
  let isAway = false;
  const { tokens } = server.store;
  const book = await TokenBook.open({
    store: { tokens: { ...tokens, list: () => (isAway ? Promise.reject(new Error("away")) : tokens.list()) } },
    ...{ clock: systemClock, log: () => {}, randomBytes: (count) => new Uint8Array(count) },
  });
  onTestFinished(() => book.close());
  let ended = 0;
  book.onEnd(idOf(token), () => (ended += 1));
  isAway = true;
  expect(await book.revoke(idOf(token))).toBe(true);
  expect(ended).toBe(1);
});

describe("a token whose time is up", () => {
  it("ends what it holds open", async () => {
    const soon = gate();
    let timed = () => {};
    let skipped = 0;
    const clock: Clock = {
      ...systemClock,
      now: () => systemClock.now() + skipped,
      after(ms, call, options) {
        if (ms > 40_000 && ms <= 50_000) {
          timed = call;
          soon.open();
        }
        return systemClock.after(ms, call, options);
      },
    };
    const server = await start({ clock, leaseMs: 3_600_000 });
    const token = await server.token({ scopes: ["work"], expiresInMs: 50_000 });
    const worker = await openWorker(server, {}, { token });
    const claim = worker.call("POST", "/claims", { body: { limit: 1, waitMs: HELD_MS } });
    await soon.passed;
    skipped = 50_000;
    timed();
    expect(await claim).toMatchObject({ status: 401, body: { code: "unauthorized" } });
  });
});

describe("a job's own token", () => {
  it("holds nothing open after its attempt", async () => {
    const server = await start();
    const worker = await openWorker(server, { kinds: ["exec"] });
    await server.call("POST", "/v1/jobs", { body: { kind: "exec", input: { argv: ["true"] } } });
    const job = await worker.take();
    const token = job.jobToken as string;
    const child = await server.call("POST", "/v1/jobs", { token, body: { kind: "never" } });
    const jobs = [{ id: child.body.id, chapter: 1 }];
    const [isWaiting, isStreaming] = [gate(), gate()];
    const { engine } = server;
    const [waitForAny, events] = [engine.waitForAny.bind(engine), engine.events.bind(engine)];
    engine.waitForAny = (...given) => {
      isWaiting.open();
      return waitForAny(...given);
    };
    engine.events = (...given) => {
      isStreaming.open();
      return events(...given);
    };
    const wait = server.call("POST", "/v1/jobs/wait", { token, body: { jobs, waitMs: HELD_MS } });
    const headers = { accept: "text/event-stream" };
    const stream = server.call("GET", `/v1/jobs/${child.body.id}/events`, { token, headers });
    await Promise.all([isWaiting.passed, isStreaming.passed]);
    await worker.report(job, DONE);
    expect(await wait).toMatchObject({
      status: 401,
      body: { message: expect.stringContaining("the token was revoked") },
    });
    expect((await stream).status).toBe(200);
  });
});

describe("usage", () => {
  it("is taken from the job and from the worker that holds it, and from no other token", async () => {
    const server = await start();
    const token = await server.token({ scopes: ["work"] });
    const [holder, stranger] = [await openWorker(server, {}, { token }), await openWorker(server, {}, { token })];
    const retry = { budget: { costUsd: 1 } };
    const { id } = (await server.call("POST", "/v1/jobs", { body: { kind: "k", retry } })).body;
    const job = (await holder.take()) as ClaimedJob;
    const put = async (headers: Record<string, string>, as: string = token, attempt = 1) => {
      const body = { attempt, usage: { tokensIn: 0, tokensOut: 0, costUsd: 5 } };
      const { status, body: answer } = await server.call("PUT", `/v1/jobs/${id}/usage`, { token: as, headers, body });
      return [status, answer?.code];
    };
    const overspent = async () =>
      (await holder.call("POST", "/renew", { body: { held: [{ jobId: id, attempt: 1 }] } })).body.overspent;
    const key = { [HEADER.sessionKey]: holder.key };
    const lease = { [HEADER.lease]: job.token };
    const forged = { [HEADER.lease]: job.token.replace(holder.session, stranger.session) };
    for (const headers of [{}, key, lease, { ...lease, [HEADER.sessionKey]: stranger.key }] as Record<
      string,
      string
    >[]) {
      expect(await put(headers)).toEqual([403, "forbidden"]);
      expect(await put(headers, server.admin)).toEqual([403, "forbidden"]);
    }
    expect(await put({ ...forged, [HEADER.sessionKey]: stranger.key })).toEqual([409, "lease_lost"]);
    expect(await put({ ...key, ...lease }, token, 2)).toEqual([403, "forbidden"]);
    expect(await overspent()).toEqual([]);
    expect(await put({ ...key, ...lease })).toEqual([204, undefined]);
    expect(await overspent()).toEqual([{ jobId: id, attempt: 1 }]);
    await holder.report(job, DONE);
    expect(await put({ ...key, ...lease })).toEqual([409, "lease_lost"]);
    // The token of a job is for that job, also where the other is its own child.
    const commands = await openWorker(server, { kinds: ["exec"] });
    await server.call("POST", "/v1/jobs", { body: { kind: "exec", input: { argv: ["true"] } } });
    const own = (await commands.take()).jobToken as string;
    const child = (await server.call("POST", "/v1/jobs", { token: own, body: { kind: "never" } })).body.id as string;
    const body = { attempt: 1, usage: { tokensIn: 0, tokensOut: 0, costUsd: 5 } };
    const reply = await server.call("PUT", `/v1/jobs/${child}/usage`, { token: own, body });
    expect(reply).toMatchObject({ status: 403, body: { code: "forbidden" } });
  });
});
