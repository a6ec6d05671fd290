/** Clients that send one request after another for a while, each on its own connection, and their observations. They
 *  use HTTP over plain sockets: Node's client costs as much as the server, and would itself be measured. */
import { connect, type Socket } from "node:net";

export interface Target {
  readonly host: string;
  readonly port: number;
  readonly token: string;
}

export interface Ask {
  readonly method: string;
  readonly path: string;
  readonly body?: () => string;
  /** Read as a stream of events until the time is over. */
  readonly stream?: boolean;
}

export interface Load {
  readonly clients: number;
  readonly ms: number;
  /** In turn. */
  readonly requests: readonly Ask[];
  readonly pauseMs?: number;
  /** Waits as long as a refusal requests, and a little more; otherwise the next request follows at once. */
  readonly honour?: boolean;
}

export interface Result {
  /** By status. */
  readonly counts: ReadonlyMap<number, number>;
  readonly resets: number;
  /** Refusals without Retry-After. */
  readonly unexplained: number;
  readonly events: number;
  quantile(q: number): number;
  readonly slowestRefusal: number;
  perSecond(status: number): number;
}

let submitted = 0;
export function submitBody(): string {
  submitted += 1;
  return JSON.stringify({ kind: "nobody", input: { n: submitted } });
}

export async function hammer(target: Target, load: Load): Promise<Result> {
  const counts = new Map<number, number>();
  const times: number[] = [];
  let [resets, unexplained, events, slowestRefusal] = [0, 0, 0, 0];
  const began = performance.now();
  const until = began + load.ms;

  async function client(first: number): Promise<void> {
    let connection: Connection | null = null;
    for (let n = first; n === first || performance.now() < until; n++) {
      const ask = load.requests[n % load.requests.length] as Ask;
      const start = performance.now();
      let waitMs = load.pauseMs ?? 0;
      try {
        connection ??= new Connection(target);
        const reply = await connection.send(requestOf(target, ask), ask.stream ? until : null);
        const tookMs = performance.now() - start;
        counts.set(reply.status, (counts.get(reply.status) ?? 0) + 1);
        events += reply.events;
        if (reply.closes) connection = null;
        if (ask.stream !== true) times.push(tookMs);
        if (reply.status === 503) {
          slowestRefusal = Math.max(slowestRefusal, tookMs);
          if (reply.retryAfter === null) unexplained += 1;
          if (load.honour) waitMs += (reply.retryAfter ?? 0) * 1_000 * (1 + Math.random() / 2);
        }
      } catch {
        resets += 1;
        connection = null;
        waitMs += 100;
      }
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, Math.min(waitMs, until - performance.now())));
    }
    connection?.end();
  }

  await Promise.all(Array.from({ length: load.clients }, (_, i) => client(i)));
  times.sort((a, b) => a - b);
  const seconds = (performance.now() - began) / 1_000;
  return {
    ...{ counts, resets, unexplained, events, slowestRefusal },
    quantile: (q) => times[Math.min(times.length - 1, Math.floor(times.length * q))] ?? 0,
    perSecond: (status) => (counts.get(status) ?? 0) / seconds,
  };
}

function requestOf({ token }: Target, { method, path, body, stream }: Ask): string {
  const text = body?.() ?? "";
  const type = text === "" ? "" : `content-type: application/json\r\ncontent-length: ${text.length}\r\n`;
  const accept = stream ? "accept: text/event-stream\r\n" : "";
  return `${method} ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n${accept}${type}\r\n${text}`;
}

interface Reply {
  readonly status: number;
  readonly retryAfter: number | null;
  readonly closes: boolean;
  readonly events: number;
}

class Connection {
  readonly #socket: Socket;
  #onData: (chunk: string) => void = () => {};
  #onEnd: () => void = () => {};

  constructor({ host, port }: Target) {
    this.#socket = connect({ host, port, noDelay: true });
    this.#socket.setEncoding("latin1");
    this.#socket.on("data", (chunk) => this.#onData(String(chunk)));
    this.#socket.on("error", () => this.#onEnd());
    this.#socket.on("close", () => this.#onEnd());
  }

  /** A stream is read until then. */
  send(text: string, until: number | null): Promise<Reply> {
    return new Promise((resolve, reject) => {
      let [seen, size, events] = ["", -1, 0];
      let head: Omit<Reply, "events"> | null = null;
      const done = () => {
        if (until !== null) this.end();
        resolve({ ...(head as Omit<Reply, "events">), events });
      };
      const timer = until === null ? null : setTimeout(done, until - performance.now());
      this.#onEnd = () => {
        if (timer !== null) clearTimeout(timer);
        if (until !== null && head !== null) done();
        else reject(new Error("the connection broke"));
      };
      this.#onData = (chunk) => {
        if (head !== null && until !== null) {
          events += chunk.split("\nevent: ").length - 1;
          return;
        }
        seen += chunk;
        if (head === null) {
          const end = seen.indexOf("\r\n\r\n");
          if (end === -1) return;
          const lines = seen.slice(0, end + 2);
          const after = /\r\nretry-after: (\d+)\r\n/i.exec(lines)?.[1];
          const closes = /\r\nconnection: close\r\n/i.test(lines);
          head = { status: Number(lines.slice(9, 12)), retryAfter: after === undefined ? null : Number(after), closes };
          size = end + 4 + Number(/\r\ncontent-length: (\d+)\r\n/i.exec(lines)?.[1] ?? 0);
        }
        if (until === null && seen.length >= size) done();
      };
      this.#socket.write(text);
    });
  }

  end(): void {
    this.#socket.destroy();
  }
}

export interface DeafStream {
  /** A client that does not read notices a closed connection only when it sends something. */
  poke(): void;
  isCut(): boolean;
  end(): void;
}

/** A stream of all events that sends its request and never reads. */
export function deafStream(target: Target): DeafStream {
  const socket = connect(target.port, target.host);
  let isCut = false;
  socket.pause();
  for (const name of ["error", "close"] as const) {
    socket.on(name, () => {
      isCut = true;
    });
  }
  socket.write(requestOf(target, { method: "GET", path: "/v1/events?after=0", stream: true }));
  return {
    poke: () => void socket.write("\r\n"),
    isCut: () => isCut,
    end: () => socket.destroy(),
  };
}

export function figures(result: Result): string {
  const q = (at: number) => `${Math.round(result.quantile(at))} ms`;
  const counts = [...result.counts].sort(([a], [b]) => a - b).map(([status, count]) => `${count}×${status}`);
  const refused = result.slowestRefusal > 0 ? `, slowest refusal ${Math.round(result.slowestRefusal)} ms` : "";
  return `p50 ${q(0.5)}, p99 ${q(0.99)}, max ${q(1)}; ${counts.join(" ")}${refused}; ${result.resets} resets`;
}
