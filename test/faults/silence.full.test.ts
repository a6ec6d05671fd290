/** F43: an unresponsive server: connections are open, and nothing is answered, as when its machine has lost its network
 *  or power. The client gets no reset. Calls must not wait forever, and everything continues when it responds again. */
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { Perdure } from "../../src/index.ts";
import { startProxy } from "../postgres/chaos-proxy.ts";
import { type PostgresServer, startServer } from "../postgres/server.ts";
import { expectSound, openScene, pass, stream, submitOne, TEST_MS } from "./kit.ts";

/** Far longer than the timeout of a call: reaching it means that there is no timeout. */
const DEADLINE_MS = 40_000;

let server: PostgresServer;
beforeAll(async () => {
  server = await startServer({ settings: { shared_buffers: "16MB" } });
});
afterAll(() => server.stop("immediate"));

it(
  "a submit to an unresponsive server has an answer in bounded time",
  async () => {
    const proxy = await startProxy({ host: "127.0.0.1", port: server.port });
    onTestFinished(() => proxy.close());
    const direct = `${server.url}?schema=silent`;
    const scene = await openScene({ url: direct.replace(`:${server.port}/`, `:${proxy.port}/`), lease: "2s" });
    const submits = stream(scene.perdure, { writers: 2, everyMs: 25 });
    await submits.more(30);
    proxy.freeze(true);
    const asked = submitOne(scene.perdure, -1, true, submits).then(() => "answered");
    const answer = await Promise.race([asked, pass(DEADLINE_MS, "waits for ever", { ref: false })]);
    proxy.freeze(false);
    expect(answer).toBe("answered");
    expect(submits.refused.find(({ n }) => n === -1)?.code).toMatch(/^store_un(known|available)$/);
    await submits.more(30);
    await submits.stop();
    await expectSound(direct, scene, submits);
  },
  TEST_MS,
);

it(
  "close() ends although the server does not respond",
  async () => {
    const proxy = await startProxy({ host: "127.0.0.1", port: server.port });
    onTestFinished(() => proxy.close());
    const url = `${server.url}?schema=closing`.replace(`:${server.port}/`, `:${proxy.port}/`);
    const perdure = await Perdure.open({ url, logger: () => {} });
    await perdure.submit("any", 1);
    proxy.freeze(true);
    const closed = perdure.close().then(() => "closed");
    expect(await Promise.race([closed, pass(DEADLINE_MS, "waits for ever", { ref: false })])).toBe("closed");
  },
  TEST_MS,
);
