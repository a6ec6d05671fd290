/** A server that does as a test tells it, over real sockets: answers, breaks off, or says nothing. And a clock whose pauses
 *  are over at once, so that tests see how long somebody would have waited. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import type { Clock } from "../../src/lib/clock.ts";
import { systemLoop } from "../../src/lib/system-clock.ts";

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: tests know what they sent
  readonly body: any;
  /** Which request of its connection it is, from 1. */
  readonly turn: number;
  /** Resolves when the caller has gone. */
  readonly gone: Promise<void>;
}

/** cut: the connection breaks after the request was taken. hang: nothing ever comes. */
export type Answer =
  | "cut"
  | "hang"
  | {
      readonly status?: number;
      readonly json?: unknown;
      readonly text?: string;
      readonly headers?: Record<string, string>;
    };

export interface FakeServer {
  readonly url: string;
  readonly asked: Asked[];
  /** Those of one route, by the end of their path. */
  of(end: string): Asked[];
  close(): Promise<void>;
}

export async function fakeServer(answer: (asked: Asked) => Answer | Promise<Answer>): Promise<FakeServer> {
  const asked: Asked[] = [];
  const turns = new WeakMap<object, number>();
  const server = createServer(async (request, response) => {
    const turn = (turns.get(request.socket) ?? 0) + 1;
    turns.set(request.socket, turn);
    const gone = new Promise<void>((resolve) => response.once("close", () => resolve()));
    const text = await readText(request);
    const isJson = request.headers["content-type"] === "application/json";
    const body = text === "" ? null : isJson ? JSON.parse(text) : text;
    const each = { method: request.method ?? "", path: request.url ?? "", headers: request.headers, body, turn, gone };
    asked.push(each);
    const said = await answer(each);
    if (said === "hang") return;
    if (said === "cut") return void request.socket.destroy();
    const { status = 200, json, text: plain, headers = {} } = said;
    const type = plain === undefined ? { "content-type": "application/json" } : {};
    response.writeHead(status, { ...type, ...headers });
    response.end(plain ?? (json === undefined ? "" : JSON.stringify(json)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = async () => {
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  onTestFinished(close);
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    of: (end) => asked.filter(({ path }) => path.endsWith(end)),
    close,
  };
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

export interface QuickClock extends Clock {
  /** Milliseconds of the pauses that were made. */
  readonly pauses: number[];
  /** Lets all time limits expire. */
  timeUp(): void;
}

/** Pauses end in the next turn, and time advances by them. Limits (background timers) expire only when the test triggers them. */
export function quickClock(): QuickClock {
  let now = 1_000_000;
  const pauses: number[] = [];
  const limits = new Set<() => void>();
  return {
    ...systemLoop,
    now: () => now,
    monotonic: () => now,
    pauses,
    after(ms, call, options) {
      if (options?.background) {
        limits.add(call);
        return () => limits.delete(call);
      }
      pauses.push(ms);
      const turn = setImmediate(() => {
        now += ms;
        call();
      });
      return () => clearImmediate(turn);
    },
    timeUp() {
      for (const call of [...limits]) call();
    },
  };
}

/** A port on loopback without a listener. */
export async function deadUrl(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return `http://127.0.0.1:${port}`;
}
