import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { systemLoop } from "../lib/system-clock.ts";
import { type ConnectionLimits, ServerConnections } from "./connections.ts";
import { connectionsWithin } from "./http-server.ts";

const LIMITS: ConnectionLimits = {
  ...{ max: 6, reserved: 2, perAddress: 100, maxDescriptor: Number.POSITIVE_INFINITY },
  ...{ handshakeMs: 10_000, writeMs: 30_000 },
};

/** Connections that are accepted for real, and a clock that is moved by hand. */
async function setUp(limits: Partial<ConnectionLimits> = {}) {
  let now = 0;
  const timers = new Set<{ at: number; call: () => void }>();
  const clock = {
    ...systemLoop,
    now: () => now,
    monotonic: () => now,
    after(ms: number, call: () => void) {
      const timer = { at: now + ms, call };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
  };
  const logged: unknown[] = [];
  const inForce = { ...LIMITS, ...limits };
  const connections = new ServerConnections(
    inForce,
    clock,
    (...line) => logged.push(line),
    () => false,
  );
  const server = createServer({ allowHalfOpen: true }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const peers: Socket[] = [];
  onTestFinished(() => {
    for (const peer of peers) peer.destroy();
    connections.closeAll();
    server.close();
  });
  return {
    connections,
    inForce,
    logged,
    peers,
    pass(ms: number) {
      now += ms;
      for (const timer of timers) {
        if (timer.at > now) continue;
        timers.delete(timer);
        timer.call();
      }
    },
    /** The socket of the server for a new connection from this address of the loopback. */
    async open(from = "127.0.0.1", isTls = false): Promise<Socket> {
      const accepted = once(server, "connection") as Promise<[Socket]>;
      const peer = connect({ port, host: "127.0.0.1", localAddress: from });
      peer.on("error", () => {});
      peers.push(peer);
      const [socket] = await accepted;
      connections.open(socket, isTls);
      return socket;
    },
    use(socket: Socket): () => void {
      const connection = connections.of(socket);
      if (connection === undefined) throw new Error("not among the connections");
      connections.begin(connection);
      return () => connections.end(connection);
    },
  };
}

const openOf = (sockets: readonly Socket[]) => sockets.map(({ destroyed }) => !destroyed);

describe("making room for a new connection", () => {
  it("is made by the oldest idle one of the address that has the most, and never by one of the reserve", async () => {
    const { open, use, connections, pass } = await setUp();
    const known = [await open("127.0.0.2"), await open("127.0.0.2")];
    for (const socket of known) connections.authenticated(socket);
    const single = await open("127.0.0.3");
    const busy = await open("127.0.0.4");
    use(busy);
    const many = [await open("127.0.0.4"), await open("127.0.0.4")];
    pass(1_000);
    const next = await open("127.0.0.5"); // six were open, and four of them anonymous
    expect(openOf([...known, single, busy, ...many, next])).toEqual([true, true, true, true, false, true, true]);
    expect([connections.size, connections.anonymous]).toEqual([6, 4]);
  });

  it("is taken from the share of callers with a token for a second only", async () => {
    const { open, connections, pass } = await setUp();
    const first = [];
    for (let i = 0; i < 5; i++) first.push(await open());
    expect(openOf(first)).toEqual([true, true, true, true, true]);
    pass(1_000);
    expect(openOf(first)).toEqual([false, true, true, true, true]);
    for (const socket of first.slice(1)) connections.authenticated(socket);
    expect(openOf([await open(), await open()])).toEqual([true, true]);
  });

  it("is lent by the reserve while the others have a request in progress, which shows who they are", async () => {
    const { open, use } = await setUp();
    const busy = [];
    for (let i = 0; i < 4; i++) {
      const socket = await open();
      use(socket);
      busy.push(socket);
    }
    const next = [await open(), await open(), await open()];
    expect(openOf([...busy, ...next])).toEqual([true, true, true, true, false, true, true]);
  });

  it("is not made by requests in progress, nor by callers with a token who were just here", async () => {
    const { open, use, connections, pass } = await setUp({ max: 3, reserved: 0 });
    const sockets = [await open(), await open(), await open()];
    const [first, second, third] = sockets as [Socket, Socket, Socket];
    for (const socket of sockets) connections.authenticated(socket);
    use(first);
    const done = use(second);
    pass(9_000);
    done();
    pass(2_000);
    const instead = await open(); // the third has been idle for eleven seconds
    expect(openOf([first, second, third, instead])).toEqual([true, true, false, true]);
    use(instead);
    const refused = await open();
    expect(openOf([first, second, instead, refused])).toEqual([true, true, true, false]);
    pass(9_000);
    expect(openOf([await open(), first, second])).toEqual([true, true, false]);
  });

  it("is made at once where one more without a token would use the reserve", async () => {
    const { open, pass } = await setUp();
    const sockets = [await open(), await open(), await open(), await open()];
    pass(1_000);
    sockets.push(await open()); // the fifth of six, of which two are reserved
    expect(openOf(sockets)).toEqual([false, true, true, true, true]);
  });
});

describe("a caller with a token", () => {
  it("keeps its connection when its next request is on its way", async () => {
    const { open, use, connections, pass, peers } = await setUp({ max: 2, reserved: 0 });
    const sockets = [await open(), await open()];
    for (const socket of sockets) {
      connections.authenticated(socket);
      use(socket)();
    }
    pass(11_000);
    const begun = once(sockets[0] as Socket, "data");
    peers[0]?.write("GET");
    await begun;
    const instead = await open();
    expect(openOf([...sockets, instead])).toEqual([true, false, true]);
  });
});

describe("time", () => {
  it("trims an address to its cap, but for connections that were just opened", async () => {
    const { open, pass } = await setUp({ max: 100, perAddress: 2 });
    const sockets = [await open(), await open(), await open(), await open()];
    const other = await open("127.0.0.2");
    expect(openOf(sockets)).toEqual([true, true, true, true]);
    pass(1_000);
    expect(openOf([...sockets, other])).toEqual([false, false, true, true, true]);
  });

  it("ends a handshake that takes too long, and the linger of a peer that never closes", async () => {
    const { open, connections, pass, logged } = await setUp({ handshakeMs: 5_000 });
    const [silent, refused] = [await open("127.0.0.1", true), await open()];
    connections.endWith(refused, "HTTP/1.1 408 Request Timeout\r\n\r\n");
    expect(openOf([silent, refused])).toEqual([true, true]);
    pass(1_000);
    expect(openOf([silent, refused])).toEqual([true, false]);
    for (let i = 0; i < 4; i++) pass(1_000);
    expect(openOf([silent])).toEqual([false]);
    expect(logged).toEqual([["warn", "connections closed", expect.objectContaining({ handshakeTimeouts: 1 })]]);
  });

  it("ends a peer that takes nothing of what was sent to it", async () => {
    const { open, pass } = await setUp({ writeMs: 3_000 });
    const socket = await open();
    const chunk = Buffer.alloc(1_048_576);
    // Until the buffers of the kernel are full, on both sides.
    while (socket.write(chunk) || socket.writableLength < 16 * chunk.length);
    for (let i = 0; i < 3; i++) pass(1_000);
    expect(socket.destroyed).toBe(false);
    pass(1_000);
    expect(socket.destroyed).toBe(true);
  });
});

describe("descriptors", () => {
  it("are left for the store and for files", () => {
    expect(connectionsWithin(2_000, null)).toEqual({ max: 2_000, maxDescriptor: Number.POSITIVE_INFINITY });
    expect(connectionsWithin(2_000, 20_000)).toEqual({ max: 2_000, maxDescriptor: 19_744 });
    expect(connectionsWithin(2_000, 1_024)).toEqual({ max: 768, maxDescriptor: 896 });
  });

  it("that are nearly used up by others make an idle connection give way", async () => {
    const { open, inForce } = await setUp();
    const sockets = [await open(), await open()];
    Object.assign(inForce, { maxDescriptor: 0 });
    sockets.push(await open(), await open(), await open());
    expect(openOf(sockets)).toEqual([false, false, false, true, true]);
  });
});
