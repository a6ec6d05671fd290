/** A proxy between a PostgreSQL client and its server that fails on demand, as networks do. The worst of these failures
 *  happen between two messages: a COMMIT that is executed while its answer is lost leaves a client that cannot know.
 *  That rarely happens by chance, so the proxy reads the wire protocol and cuts at the message that a test names. Since
 *  it must read the messages, it declines encryption. Its rules do not support COPY, nor a login in several steps. */
import { EventEmitter, once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** A message from a client. The type is the letter of the protocol, or "startup" or "cancel" for the two without one;
 *  the text is the body as UTF-8, a Query's without the NUL at its end. A Sync has no text: match Parse, Bind or
 *  Execute. */
export type ClientMessage = { readonly type: string; readonly text: string };

/** The client is always reset, and nothing it sends later is forwarded. The server gets everything that was forwarded,
 *  and then the end of the connection. In a batch (Parse, Bind, Execute …) the last two cut at its Sync, as nothing is
 *  committed before.
 *  - cut-before: the message is not forwarded.
 *  - cut-after: it is forwarded and the client reset at once, before any answer.
 *  - cut-reply: it is forwarded and the client reset when the server has answered in full, up to ReadyForQuery. */
export type Action = "cut-before" | "cut-after" | "cut-reply";

/** Towards the server is up, towards the client is down. */
export type Direction = "up" | "down";
export type Proxy = Awaited<ReturnType<typeof startProxy>>;

type Likes = (message: ClientMessage) => boolean;
type Rule = { readonly likes: Likes; readonly action: Action; left: number; hits: number; settle(): void };

/** Splits a stream into messages. Chunks are joined when a message is complete, not as they arrive. */
export class Framer {
  #chunks: Buffer[] = [];
  #held = 0;
  #wanted = 0;
  /** Whether a type byte comes before the length, as in all but a client's first messages. */
  typed = true;

  *take(chunk: Buffer): Generator<Buffer> {
    this.#chunks.push(chunk);
    this.#held += chunk.length;
    for (;;) {
      const at = this.typed ? 1 : 0;
      if (this.#held < Math.max(this.#wanted, at + 4)) return;
      const all = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
      this.#chunks = [all];
      this.#wanted = at + all.readInt32BE(at);
      if (this.#wanted < (this.typed ? 5 : 8)) throw new Error("chaos proxy: this is not the PostgreSQL protocol");
      if (this.#held < this.#wanted) return;
      const message = all.subarray(0, this.#wanted);
      this.#chunks = [all.subarray(this.#wanted)];
      this.#held -= this.#wanted;
      this.#wanted = 0;
      yield message;
    }
  }
}

const ENDS_IN_READY = ["startup", "Q", "S", "F"];
const PART_OF_BATCH = ["P", "B", "D", "E", "C", "H"];
const WITHOUT_TYPE = new Map([
  [80877102, "cancel"],
  [80877103, "encryption"], // TLS
  [80877104, "encryption"], // GSSAPI
]);

function read(message: Buffer, typed: boolean): ClientMessage {
  const type = typed ? message.toString("latin1", 0, 1) : (WITHOUT_TYPE.get(message.readInt32BE(4)) ?? "startup");
  return {
    type,
    // Computed on demand: most predicates check the type first, and a message can have megabytes.
    get text() {
      return message.toString("utf8", typed ? 5 : 8, message.length - (type === "Q" ? 1 : 0));
    },
  };
}

/** Resolves when the kernel has the bytes or the socket has failed. */
async function send(to: Socket, messages: Buffer[]): Promise<void> {
  if (messages.length > 0) await new Promise((resolve) => to.write(Buffer.concat(messages), resolve));
}

export async function startProxy(target: { readonly host: string; readonly port: number }) {
  const counts = { connections: 0, refused: 0, cuts: 0 };
  const open = new Set<{ cut(): void }>();
  const rules = new Set<Rule>();
  const frozen = new Set<Direction>();
  const thaw = new EventEmitter().setMaxListeners(0);
  let aim = target;
  let delayMs = 0;
  let refusing = false;

  async function thawed(direction: Direction): Promise<void> {
    while (frozen.has(direction)) await once(thaw, "thaw");
  }

  async function carry(client: Socket, server: Socket): Promise<void> {
    const [sent, replied] = [new Framer(), new Framer()];
    sent.typed = false;
    /** How many ReadyForQuery the server owes in total, how many arrived, and at which count a cut in progress is
     *  complete. */
    let [asked, answered] = [0, 0];
    let until: number | undefined;
    let rule: Rule | undefined;
    let wasCut = false;

    const resetClient = () => {
      if (!wasCut) counts.cuts++;
      wasCut = true;
      client.resetAndDestroy();
    };
    const finish = () => {
      resetClient();
      server.end();
      rule?.settle();
    };
    const cut = () => {
      until ??= 0;
      server.resetAndDestroy();
      finish();
    };
    const connection = { cut };

    async function fromClient(chunk: Buffer): Promise<void> {
      const forward: Buffer[] = [];
      for (const bytes of until === undefined ? sent.take(chunk) : []) {
        const message = read(bytes, sent.typed);
        if (message.type === "encryption") {
          client.write("N");
          continue;
        }
        sent.typed = true;
        if (!rule) {
          rule = [...rules].find((one) => one.left > 0 && one.likes(message));
          if (rule) [rule.left, rule.hits] = [rule.left - 1, rule.hits + 1];
        }
        if (rule?.action === "cut-before") until = answered;
        else {
          forward.push(bytes);
          if (ENDS_IN_READY.includes(message.type)) asked++;
          if (rule && !PART_OF_BATCH.includes(message.type)) until = asked;
        }
        if (until !== undefined) break;
      }
      const written = send(server, forward);
      if (until !== undefined && rule?.action === "cut-after") resetClient();
      if (until !== undefined && answered >= until) finish();
      await written;
    }

    async function fromServer(chunk: Buffer): Promise<void> {
      const forward: Buffer[] = [];
      for (const bytes of replied.take(chunk)) {
        if (until === undefined || answered < until - 1) forward.push(bytes);
        if (bytes[0] === 0x5a) answered++; // Z, ReadyForQuery
      }
      await send(client, forward);
      if (until !== undefined && answered >= until) finish();
    }

    /** Data held by a freeze is forwarded after it, including the end of a connection: until then the other side knows
     *  nothing. */
    async function pump(direction: Direction, from: Socket, to: Socket, handle: typeof fromClient): Promise<void> {
      try {
        for await (const chunk of from.iterator({ destroyOnReturn: false })) {
          if (delayMs > 0) await sleep(delayMs);
          await thawed(direction);
          await handle(chunk);
        }
      } catch (error) {
        if (!from.destroyed) {
          cut();
          throw error; // for example from a predicate, which must not look like a network fault
        }
      }
      await thawed(direction);
      if (until === undefined) from.readableEnded ? to.end() : to.resetAndDestroy();
      else if (direction === "down") finish();
    }

    open.add(connection);
    for (const socket of [client, server]) socket.on("error", () => {}); // the pumps notice it themselves
    await Promise.all([pump("up", client, server, fromClient), pump("down", server, client, fromServer)]);
    open.delete(connection);
    rule?.settle();
  }

  const listener = createServer({ allowHalfOpen: true, noDelay: true }, async (client) => {
    counts[refusing ? "refused" : "connections"]++;
    if (refusing) client.on("error", () => {}).resetAndDestroy();
    else await carry(client, connect({ ...aim, allowHalfOpen: true, noDelay: true }));
  });
  await once(listener.listen(0, "127.0.0.1"), "listening");

  const proxy = {
    port: (listener.address() as AddressInfo).port,
    /** So far: accepted connections, refused connections, and clients reset by `cutAll` or by a rule. */
    counts: counts as Readonly<typeof counts>,
    /** Target of new connections, as when an address moves to another machine. Open ones stay. */
    retarget(host: string, port: number): void {
      aim = { host, port };
    },
    /** Resets both sides of all connections, with everything in progress. */
    cutAll(): void {
      for (const connection of open) connection.cut();
    },
    /** Whether new connections are reset at once. */
    refuse(on: boolean): void {
      refusing = on;
    },
    /** Nothing passes and nothing is lost; connections stay open, and new ones are accepted but not answered. */
    freeze(on: boolean, directions: readonly Direction[] = ["up", "down"]): void {
      for (const direction of directions) frozen[on ? "add" : "delete"](direction);
      thaw.emit("thaw");
    },
    /** How long each chunk is held before the next is processed. */
    delay(ms: number): void {
      delayMs = ms;
    },
    /** A message is passed to the rules in order until one matches; a rule acts at most `times` times. `done` resolves
     *  when its first cut is complete: the client is reset, and the server has processed what it got. */
    onClientMessage(likes: Likes, action: Action, times = Infinity) {
      const rule: Rule = { likes, action, left: times, hits: 0, settle() {} };
      const done = new Promise<void>((resolve) => {
        rule.settle = resolve;
      });
      rules.add(rule);
      return { hits: () => rule.hits, done, remove: () => rules.delete(rule) };
    },
    async close(): Promise<void> {
      const closed = once(listener.close(), "close");
      proxy.cutAll();
      proxy.freeze(false);
      await closed;
    },
  };
  return proxy;
}
