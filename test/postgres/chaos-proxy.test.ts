/** The proxy in front of a server that only knows when an answer ends: what passes, what is cut, and what each side
 *  sees. */
import { EventEmitter, once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { SEED } from "../tier.ts";
import { type ClientMessage, Framer, startProxy } from "./chaos-proxy.ts";

function message(type: string, body: string | Buffer): Buffer {
  const bytes = Buffer.from(body as string);
  const head = Buffer.alloc(type.length + 4);
  head.write(type, "latin1");
  head.writeInt32BE(bytes.length + 4, type.length);
  return Buffer.concat([head, bytes]);
}

function code(number: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(number);
  return bytes;
}

const query = (sql: string) => message("Q", `${sql}\0`);
const batch = (sql: string) => [
  message("P", `one\0${sql}\0`),
  message("B", "\0one\0"),
  message("E", "\0"),
  message("S", ""),
];
const STARTUP = message("", Buffer.concat([code(196608), Buffer.from("user\0me\0\0")]));
const ENCRYPT = message("", code(80877103));
const CANCEL = message("", Buffer.concat([code(80877102), code(1), code(2)]));

/** Waits for a state caused by events. */
class Seen extends EventEmitter {
  note(): void {
    this.emit("news");
  }

  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await once(this, "news");
  }
}

/** Answers everything that a client sends up to a Query or Sync with the same bytes and a ReadyForQuery, unless
 *  held. */
class FakeServer extends Seen {
  readonly #listener = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#serve(socket));
  readonly got: string[] = [];
  readonly #held: (() => void)[] = [];
  holding = false;
  ended = 0;
  broken = 0;

  #serve(socket: Socket): void {
    const framer = new Framer();
    framer.typed = false;
    let echo: Buffer[] = [];
    socket.on("error", () => {
      this.broken++;
      this.note();
    });
    socket.on("end", () => {
      this.ended++;
      this.note();
      socket.end();
    });
    socket.on("data", (chunk: Buffer) => {
      for (const bytes of framer.take(chunk)) {
        const type = framer.typed ? bytes.toString("latin1", 0, 1) : "";
        framer.typed = true;
        if (type !== "") echo.push(bytes);
        this.got.push(type === "Q" ? bytes.toString("utf8", 5, Math.min(bytes.length - 1, 50)) : type);
        if (!["", "Q", "S"].includes(type)) continue;
        const answer = Buffer.concat([...echo, message("Z", "I")]);
        echo = [];
        this.#held.push(() => socket.write(answer));
        if (!this.holding) this.answer();
      }
      this.note();
    });
  }

  answer(): void {
    this.#held.shift()?.();
  }

  async listen(): Promise<{ host: string; port: number }> {
    await once(this.#listener.listen(0, "127.0.0.1"), "listening");
    onTestFinished(() => void this.#listener.close());
    return { host: "127.0.0.1", port: (this.#listener.address() as AddressInfo).port };
  }
}

class Client extends Seen {
  readonly socket: Socket;
  readonly #framer = new Framer();
  readonly #parts: Buffer[] = [];
  answers = 0;
  end: string | undefined;

  constructor(port: number) {
    super();
    this.socket = connect({ host: "127.0.0.1", port, noDelay: true });
    onTestFinished(() => void this.socket.destroy());
    this.socket.on("error", (error: NodeJS.ErrnoException) => {
      this.end = error.code;
    });
    this.socket.on("close", () => {
      this.end ??= "closed";
      this.note();
    });
  }

  /** From here on, all incoming messages are answers. */
  login(): Promise<void> {
    this.socket.on("data", (chunk: Buffer) => {
      for (const bytes of this.#framer.take(chunk)) {
        if (bytes[0] === 0x5a) this.answers++;
        else this.#parts.push(bytes);
      }
      this.note();
    });
    this.socket.write(STARTUP);
    return this.answered(1);
  }

  answered(count: number): Promise<void> {
    return this.until(() => this.answers >= count);
  }

  async ended(): Promise<string | undefined> {
    await this.until(() => this.end !== undefined);
    return this.end;
  }

  received(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

async function start() {
  const server = new FakeServer();
  const target = await server.listen();
  const proxy = await startProxy(target);
  onTestFinished(() => proxy.close());
  const client = async () => {
    const one = new Client(proxy.port);
    await one.login();
    server.got.length = 0;
    return one;
  };
  return { server, target, proxy, client };
}

const isCommit = ({ type, text }: ClientMessage) => type === "Q" && text === "COMMIT";

it("finds the messages whatever the chunks", () => {
  const sizes = [0, 1, 3, 4, 5, 6, 250, 1000];
  const all = sizes.map((size) => message("Q", Buffer.alloc(size, size)));
  const stream = Buffer.concat(all);
  for (let step = 1; step <= stream.length; step = step < 12 ? step + 1 : step * 2) {
    const framer = new Framer();
    const found: Buffer[] = [];
    for (let at = 0; at < stream.length; at += step) found.push(...framer.take(stream.subarray(at, at + step)));
    expect(found, `chunks of ${step}`).toEqual(all);
  }
  expect(() => [...new Framer().take(Buffer.from("GET / HTTP/1.1").fill(0, 1))]).toThrow("not the PostgreSQL protocol");
});

it("copies a large message once, not for each chunk", () => {
  const framer = new Framer();
  const large = message("Q", Buffer.alloc(16 * 2 ** 20));
  let found = 0;
  // Joined again for each chunk, these would be 130 gigabytes.
  for (let at = 0; at < large.length; at += 1024) for (const _ of framer.take(large.subarray(at, at + 1024))) found++;
  expect(found).toBe(1);
});

it("passes everything on unchanged, both ways, in chunks of any size", async () => {
  const { proxy, client } = await start();
  const one = await client();
  proxy.onClientMessage(({ text }) => text === "never sent", "cut-before");
  console.log(`chaos proxy: PERDURE_SEED=${SEED}`);
  let state = SEED;
  const below = (limit: number) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return Math.floor((state / 2 ** 31) * limit);
  };
  const sent = [query("x".repeat(3 * 2 ** 20)), ...batch("SELECT ü")];
  for (let i = 0; i < 100; i++) sent.push(...(below(2) ? [query("é".repeat(below(300)))] : batch(`SELECT ${i}`)));
  const stream = Buffer.concat(sent);
  for (let at = 0; at < stream.length; ) {
    const size = 1 + below(at < 3 * 2 ** 20 ? 200_000 : 60);
    await new Promise((resolve) => one.socket.write(stream.subarray(at, at + size), resolve));
    at += size;
  }
  await one.answered(1 + sent.filter((bytes) => "QS".includes(String.fromCharCode(bytes[0] as number))).length);
  expect(one.received().equals(stream)).toBe(true);
  one.socket.end();
  expect(await one.ended()).toBe("closed");
  expect(proxy.counts).toEqual({ connections: 1, refused: 0, cuts: 0 });
});

it("declines encryption, and shows the messages that have no type", async () => {
  const { server, proxy } = await start();
  const seen: ClientMessage[] = [];
  const look = ({ type, text }: ClientMessage) => seen.push({ type, text }) < 0;
  proxy.onClientMessage(look, "cut-before");
  const one = new Client(proxy.port);
  one.socket.write(ENCRYPT);
  expect(String((await once(one.socket, "data"))[0])).toBe("N");
  await one.login();
  new Client(proxy.port).socket.end(CANCEL);
  await server.until(() => server.ended === 1);
  expect(seen.map(({ type }) => type)).toEqual(["startup", "cancel"]);
  expect(seen[0]?.text).toBe("user\0me\0\0");
});

it("cuts before a message: the server gets what came earlier, and the end", async () => {
  const { server, proxy, client } = await start();
  const one = await client();
  const rule = proxy.onClientMessage(isCommit, "cut-before", 1);
  one.socket.write(Buffer.concat([query("BEGIN"), query("COMMIT"), query("SELECT 1")]));
  expect(await one.ended()).toBe("ECONNRESET");
  await rule.done;
  await server.until(() => server.ended === 1);
  expect(server.got).toEqual(["BEGIN"]);
  expect([rule.hits(), proxy.counts.cuts]).toEqual([1, 1]);
  // The rule was for a single use.
  const next = await client();
  next.socket.write(query("COMMIT"));
  await next.answered(2);
});

it("cuts after a message: the client is reset before the answer, the server stays until it has answered", async () => {
  const { server, proxy, client } = await start();
  const one = await client();
  const rule = proxy.onClientMessage(isCommit, "cut-after");
  server.holding = true;
  one.socket.write(Buffer.concat([query("COMMIT"), query("SELECT 1")]));
  expect(await one.ended()).toBe("ECONNRESET");
  await server.until(() => server.got.length > 0);
  expect(server.ended).toBe(0);
  server.answer();
  await rule.done;
  await server.until(() => server.ended === 1);
  expect(server.got).toEqual(["COMMIT"]);
  expect([one.answers, server.broken, proxy.counts.cuts]).toEqual([1, 0, 1]);
});

it("cuts a reply: earlier ones pass, and the client stays until the server has answered", async () => {
  const { server, proxy, client } = await start();
  const one = await client();
  const rule = proxy.onClientMessage(isCommit, "cut-reply");
  server.holding = true;
  one.socket.write(Buffer.concat([query("BEGIN"), query("COMMIT"), query("SELECT 1")]));
  await server.until(() => server.got.length === 2);
  server.answer();
  await one.answered(2);
  expect([one.end, server.ended]).toEqual([undefined, 0]);
  server.answer();
  expect(await one.ended()).toBe("ECONNRESET");
  await rule.done;
  await server.until(() => server.ended === 1);
  expect(server.got).toEqual(["BEGIN", "COMMIT"]);
  expect(one.received()).toEqual(query("BEGIN"));
});

it.each([
  ["cut-before", "E", ["P", "B"]],
  ["cut-after", "P", ["P", "B", "E", "S"]],
  ["cut-reply", "P", ["P", "B", "E", "S"]],
] as const)("cuts a batch: %s", async (action, type, arrives) => {
  const { server, proxy, client } = await start();
  const one = await client();
  const rule = proxy.onClientMessage(
    (seen) => seen.type === type && (type === "E" || /UPDATE/.test(seen.text)),
    action,
  );
  one.socket.write(query("SELECT 1"));
  await one.answered(2);
  for (const bytes of batch("UPDATE jobs")) await new Promise((resolve) => one.socket.write(bytes, resolve));
  expect(await one.ended()).toBe("ECONNRESET");
  await rule.done;
  await server.until(() => server.ended === 1);
  expect(server.got).toEqual(["SELECT 1", ...arrives]);
  expect(one.answers).toBe(2);
});

it("resets all connections, and new ones while it refuses", async () => {
  const { server, proxy, client } = await start();
  const both = [await client(), await client()];
  proxy.refuse(true);
  proxy.cutAll();
  for (const one of both) expect(await one.ended()).toBe("ECONNRESET");
  await server.until(() => server.broken === 2);
  expect(await new Client(proxy.port).ended()).toBe("ECONNRESET");
  proxy.refuse(false);
  await client();
  expect(proxy.counts).toEqual({ connections: 3, refused: 1, cuts: 2 });
});

it("freezes: nothing passes, not even the end of a connection, and all of it does later", async () => {
  const { server, target, proxy, client } = await start();
  const [one, two, idle] = [await client(), await client(), await client()];
  // A connection around the freeze, to see that the server had time to answer.
  const around = new Client(target.port);
  await around.login();
  server.got.length = 0;
  proxy.freeze(true);
  one.socket.end(query("first"));
  two.socket.write(query("second"));
  idle.socket.end();
  for (let i = 2; i < 20; i++) {
    around.socket.write(query("around"));
    await around.answered(i);
  }
  expect(server.got.filter((text) => text !== "around")).toEqual([]);
  expect([server.ended, one.end, two.end]).toEqual([0, undefined, undefined]);

  proxy.freeze(false, ["up"]);
  await server.until(() => server.got.includes("first") && server.got.includes("second") && server.ended === 2);
  around.socket.write(query("around"));
  await around.answered(20);
  expect([one.answers, two.answers]).toEqual([1, 1]);

  proxy.freeze(false);
  await Promise.all([one.answered(2), two.answered(2)]);
  expect([await one.ended(), await idle.ended()]).toEqual(["closed", "closed"]);
  expect([two.end, proxy.counts.cuts]).toEqual([undefined, 0]);
});

it("cuts what is frozen, and closes while it is", async () => {
  const { server, proxy, client } = await start();
  const one = await client();
  proxy.freeze(true);
  one.socket.write(query("lost"));
  proxy.cutAll();
  expect(await one.ended()).toBe("ECONNRESET");
  const two = new Client(proxy.port);
  await once(two.socket, "connect");
  await proxy.close();
  expect(await two.ended()).toBe("ECONNRESET");
  expect(server.got).toEqual([]);
  expect(await new Client(proxy.port).ended()).toBe("ECONNREFUSED");
});

it("delays each chunk", async () => {
  const { proxy, client } = await start();
  const one = await client();
  proxy.delay(50);
  const started = performance.now();
  one.socket.write(query("SELECT 1"));
  await one.answered(2);
  expect(performance.now() - started).toBeGreaterThan(95); // both ways, with timer rounding
});

it("resets a client whose server is down", async () => {
  const { target } = await start();
  const gone = createServer();
  await once(gone.listen(0, target.host), "listening");
  const { port } = gone.address() as AddressInfo;
  await once(gone.close(), "close");
  const proxy = await startProxy({ host: target.host, port });
  onTestFinished(() => proxy.close());
  expect(await new Client(proxy.port).ended()).toBe("ECONNRESET");
});

it("routes new connections to another server and leaves the open ones unchanged", async () => {
  const { server, proxy, client } = await start();
  const early = await client();
  const other = new FakeServer();
  const { host, port } = await other.listen();
  proxy.retarget(host, port);
  const late = await client();
  early.socket.write(query("to the first"));
  late.socket.write(query("to the other"));
  await Promise.all([early.answered(2), late.answered(2)]);
  expect([server.got, other.got]).toEqual([["to the first"], ["", "to the other"]]);
});
