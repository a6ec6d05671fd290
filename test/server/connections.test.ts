/** Who gets a connection when there are too many, and what may be sent over one, over real sockets: whoever has no token takes nothing from those who
 *  have one, and leaves nothing behind. */
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { describe, expect, it, onTestFinished } from "vitest";
import { HEADER } from "../../src/contract/wire.ts";
import { gate } from "../kit.ts";
import { type KitOptions, startServer } from "./kit.ts";
import { exchange, statusesOf } from "./raw.ts";
import { TEST_CERT, TEST_KEY } from "./tls.ts";
import { openWorker } from "./worker-kit.ts";

async function start(options: KitOptions = {}) {
  const server = await startServer(options);
  onTestFinished(server.close);
  return server;
}

const PROBE = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/** An open connection, all that came over it, and when it is over. */
class Peer {
  readonly socket: Socket;
  readonly closed: Promise<unknown>;
  text = "";

  constructor(socket: Socket, isReading = true) {
    this.socket = socket;
    socket.on("error", () => {});
    if (isReading) socket.on("data", (data) => (this.text += String(data)));
    this.closed = new Promise((resolve) => socket.once("close", resolve));
    onTestFinished(() => void socket.destroy());
  }

  static async open(port: number): Promise<Peer> {
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    return new Peer(socket);
  }

  get statuses(): number[] {
    return statusesOf(this.text);
  }
}

const asking = (token: string, path = "/v1/queues") =>
  `GET ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n\r\n`;

describe("a flood of idle connections", () => {
  it("locks no client out, and closes no connection with a token", async () => {
    const [entered, release] = [gate(), gate()];
    const server = await start({
      maxConnections: 8,
      wrapStore: (store) =>
        Object.assign(Object.create(store), {
          queues: {
            ...store.queues,
            async counts(...args: Parameters<typeof store.queues.counts>) {
              entered.open();
              await release.passed;
              return store.queues.counts(...args);
            },
          },
        }),
    });
    const kept = await Peer.open(server.port);
    kept.socket.write(asking(server.admin, "/v1/version"));
    await expect.poll(() => kept.statuses).toEqual([200]);
    const busy = await Peer.open(server.port);
    busy.socket.write(asking(server.admin));
    await entered.passed;
    const idle = await Promise.all(Array.from({ length: 30 }, () => Peer.open(server.port)));
    for (let i = 0; i < 5; i++) expect(statusesOf(await exchange(server.port, PROBE))).toEqual([200]);
    kept.socket.write(asking(server.admin, "/v1/version"));
    release.open();
    await expect.poll(() => [kept.statuses, busy.statuses]).toEqual([[200, 200], [200]]);
    // Of the others the newest, up to the limit.
    await expect.poll(() => idle.filter(({ socket }) => socket.destroyed).length).toBeGreaterThanOrEqual(30 - 6);
  });

  it("is refused where all connections are in use", async () => {
    const server = await start({ maxConnections: 2 });
    const known = [await Peer.open(server.port), await Peer.open(server.port)];
    for (const { socket } of known) socket.write(asking(server.admin, "/v1/version"));
    await expect.poll(() => known.map(({ statuses }) => statuses)).toEqual([[200], [200]]);
    expect(await exchange(server.port, PROBE).catch(() => "")).toBe("");
    for (const { socket } of known) socket.destroy();
    await expect.poll(async () => statusesOf(await exchange(server.port, PROBE).catch(() => ""))).toEqual([200]);
  });
});

/** Sockets of this process between these ports, on the server's side: those with an inode. */
function socketsOf(port: number, peer: number): number {
  const [local, remote] = [port, peer].map((each) => each.toString(16).toUpperCase().padStart(4, "0"));
  const lines = readFileSync("/proc/net/tcp", "utf8").split("\n");
  const fields = lines.map((line) => line.trim().split(/\s+/));
  const mine = fields.filter((f) => f[1]?.endsWith(`:${local}`) && f[2]?.endsWith(`:${remote}`));
  return mine.filter((f) => f[9] !== "0").length;
}

describe("a connection that sends nothing", () => {
  it.runIf(existsSync("/proc/net/tcp"))("is destroyed, also when its peer never closes its own side", async () => {
    const server = await start({ headersMs: 100 });
    const peer = new Peer(connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true }));
    await once(peer.socket, "end");
    expect(peer.statuses).toEqual([408]);
    // What was only shut down still belongs to the process; of what was destroyed the kernel alone knows.
    await expect.poll(() => socketsOf(server.port, peer.socket.localPort as number)).toBe(0);
  });

  it("is destroyed where TLS should begin, as is one that sends something else", async () => {
    const server = await start({ headersMs: 100, tls: { cert: TEST_CERT, key: TEST_KEY } });
    const silent = await Peer.open(server.port);
    const wrong = await Peer.open(server.port);
    wrong.socket.write(PROBE);
    await Promise.all([silent.closed, wrong.closed]);
    expect(silent.text).toBe("");
  });

  it("does not keep the server from stopping, within TLS or before it", async () => {
    const server = await start({ tls: { cert: TEST_CERT, key: TEST_KEY } });
    const raw = Array.from({ length: 3 }, () => Peer.open(server.port));
    const secure = new Peer(
      connectTls({ port: server.port, host: "127.0.0.1", ca: TEST_CERT, servername: "localhost" }),
    );
    await Promise.all([...raw, once(secure.socket, "secureConnect")]);
    secure.socket.write("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    await expect.poll(() => secure.statuses).toEqual([200]);
    await server.server.stop(5_000);
    await secure.closed;
  });
});

describe("requests that were sent before the reply to the one before", () => {
  it("are started one at a time, and are too many where more wait than may", async () => {
    const release = gate();
    let started = 0;
    const server = await start({
      wrapStore: (store) =>
        Object.assign(Object.create(store), {
          queues: {
            ...store.queues,
            async counts(...args: Parameters<typeof store.queues.counts>) {
              started += 1;
              await release.passed;
              return store.queues.counts(...args);
            },
          },
        }),
    });
    const [few, many] = [await Peer.open(server.port), await Peer.open(server.port)];
    few.socket.write(asking(server.admin).repeat(5) + asking(server.admin, "/v1/version"));
    many.socket.write(asking(server.admin).repeat(40));
    await many.closed;
    expect([started, many.text, few.text]).toEqual([2, "", ""]);
    // A later body is not delayed by earlier ones.
    const body = JSON.stringify({ kind: "k", delay: "1d" });
    const head = `POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${server.admin}\r\n`;
    few.socket.write(
      `${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
    );
    release.open();
    await expect.poll(() => few.statuses).toEqual([200, 200, 200, 200, 200, 200]);
    few.socket.write(body.slice(5));
    await expect.poll(() => few.statuses).toEqual([200, 200, 200, 200, 200, 200, 201]);
  });
});

describe("replies that are not read", () => {
  it("take their memory from a budget, before more are made, until their reader is cut off", async () => {
    const server = await start({ replies: { maxBytes: 4_000_000, maxWaitMs: 20 }, writeMs: 500 });
    const [reader, other] = [await server.token({ name: "reader" }), await server.token({ name: "other" })];
    // More than the buffers of the kernel hold.
    const input = "x".repeat(1_000_000);
    const jobs = Array.from({ length: 8 }, () => ({ kind: "k", input, delay: "1d" }));
    expect((await server.call("POST", "/v1/jobs/batch", { body: { jobs } })).status).toBe(200);
    const deaf = new Peer(connect(server.port, "127.0.0.1"), false);
    deaf.socket.pause();
    deaf.socket.write(asking(reader, "/v1/jobs"));
    const list = (token: string) => server.call("GET", "/v1/jobs?limit=1", { token });
    await expect
      .poll(async () => {
        const { status, body, headers } = await list(reader);
        return [status, body.code, headers.get("retry-after")];
      })
      .toEqual([503, "overloaded", "1"]);
    const whole = await server.call("GET", "/v1/jobs", { token: other });
    expect([whole.status, Number(whole.headers.get("content-length"))]).toEqual([200, whole.text.length]);
    expect(whole.body.jobs.every((job: { payload: string }) => job.payload === input)).toBe(true);
    await expect.poll(async () => (await list(reader)).status).toBe(200);
    expect(server.logged.join("")).toContain('"writeTimeouts":1');
  });

  it("keep no other worker from claims, also with the same token", async () => {
    const server = await start({ replies: { maxBytes: 16_000_000, maxWaitMs: 20 }, leaseMs: 3_600_000 });
    const token = await server.token({ name: "fleet", scopes: ["work"], namespace: "default" });
    const [slow, quick] = [await openWorker(server, {}, { token }), await openWorker(server, {}, { token })];
    const input = "x".repeat(1_000_000);
    const batch = { jobs: Array.from({ length: 6 }, () => ({ kind: "k", input })) };
    for (let i = 0; i < 2; i++) {
      expect((await server.call("POST", "/v1/jobs/batch", { body: batch })).status).toBe(200);
    }
    // More than the half of a token.
    const body = JSON.stringify({ limit: 9 });
    const deaf = new Peer(connect(server.port, "127.0.0.1"), false);
    deaf.socket.pause();
    deaf.socket.write(
      `POST /v1/sessions/${slow.session}/claims HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n` +
        `${HEADER.sessionKey}: ${slow.key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    const running = async () => (await server.call("GET", "/v1/queues")).body.queues[0].counts.running;
    await expect.poll(running).toBeGreaterThanOrEqual(7);
    const refused = await slow.call("POST", "/claims", { body: { limit: 1 } });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, expect.stringMatching(/^[123]$/)]);
    // One job at a time while memory is short.
    for (let i = 0; i < 2; i++) expect(await quick.claim()).toHaveLength(1);
  });
});
