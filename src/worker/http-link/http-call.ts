/** One call to the server: a request, and its reply as JSON or as a byte stream. Connections are kept alive.
 *
 *  Every call ends: with its reply, or with a `WireError` after a time limit. It is not repeated here, with one exception: the
 *  server may close an idle connection just as it is reused. */
import type { ClientRequest, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { type Feature, namesFeature, OWN_FEATURES } from "../../contract/features.ts";
import type { RouteName } from "../../contract/routes.ts";
import { HEADER } from "../../contract/wire.ts";
import { PerdureError } from "../../core/errors.ts";
import type { Clock } from "../../lib/clock.ts";
import { requestHead, type WireCall } from "../../wire/request.ts";
import { notSent, parseReply, refusal, tooLarge, unreachable, WireError } from "../../wire/wire-error.ts";
import { type ServerAddress, serverAddress } from "./server-address.ts";

export interface ServerCallOptions {
  readonly url: string;
  /** Called before each request: the token may change while the worker runs. */
  readonly token: () => string;
  /** The namespace, for a token that is valid for all. */
  readonly namespace: string | null;
  readonly clock: Clock;
  /** A file of certificates to trust in addition. */
  readonly ca?: string | undefined;
}

export interface ServerCallRequest extends WireCall {
  /** Time limit until the reply is complete; default 20 s. */
  readonly totalMs?: number;
}

export interface ServerCalls {
  /** The address, for messages. */
  readonly shown: string;
  json<T>(route: RouteName, ask: ServerCallRequest): Promise<T>;
  /** Streams the bytes of a reply; `totalMs` limits each wait. */
  bytes(route: RouteName, ask: ServerCallRequest): AsyncGenerator<Buffer>;
  /** Whether the server named this feature in its latest reply. Before the first reply, and after one of 0.1.0 or of a
   *  proxy, it has none. */
  serverKnows(feature: Feature): boolean;
  /** Aborts calls in progress, and closes the connections. */
  close(): void;
}

const CONNECT_MS = 5_000;
const TOTAL_MS = 20_000;
/** A reply is held in memory as a whole. */
const MAX_REPLY = 64 * 1_048_576;

interface ServerExchange {
  readonly reply: IncomingMessage;
  readonly request: ClientRequest;
  /** Must be called at the end in any case. */
  readonly end: () => void;
}

export function serverCalls(options: ServerCallOptions): ServerCalls {
  const { clock } = options;
  const address = serverAddress(options.url, options.ca);
  const target = { server: address.shown };
  const inProgress = new Set<ClientRequest>();
  let isClosed = false;
  let features: string | undefined;

  function send(route: RouteName, ask: ServerCallRequest): ClientRequest {
    const { method, path, headers } = requestHead(route, ask, { token: options.token(), namespace: options.namespace });
    if (ask.body !== undefined) headers["content-length"] = String(Buffer.byteLength(ask.body));
    headers[HEADER.features] = OWN_FEATURES;
    const { hostname, port, prefix, agent, request } = address;
    return request({ hostname, port, path: prefix + path, agent, method, headers });
  }

  /** Sends the request; resolves with the head of the reply. */
  function exchange(route: RouteName, ask: ServerCallRequest, isAgain = false): Promise<ServerExchange> {
    return new Promise((resolve, reject) => {
      if (isClosed) return reject(new WireError("closed", "the link to the server was closed"));
      let request: ClientRequest;
      try {
        request = send(route, ask);
      } catch (error) {
        return reject(error instanceof PerdureError ? error : notSent(error));
      }
      inProgress.add(request);
      const { totalMs = TOTAL_MS, signal } = ask;
      let isSent = false;
      let hasReply = false;
      const giveUp = (why: string) => request.destroy(new Error(why));
      let cancelConnect = () => {};
      const cancelTotal = clock.after(totalMs, () => giveUp(`no answer within ${totalMs} ms`), { background: true });
      const onAbort = () => giveUp("cancelled by the caller");
      signal?.addEventListener("abort", onAbort);
      const end = () => {
        inProgress.delete(request);
        cancelConnect();
        cancelTotal();
        signal?.removeEventListener("abort", onAbort);
      };
      request.on("socket", (socket: Socket) => {
        const connected = () => {
          isSent = true;
          cancelConnect();
        };
        if (!socket.connecting) return connected();
        socket.once("connect", connected);
        cancelConnect = clock.after(CONNECT_MS, () => giveUp(`no connection within ${CONNECT_MS} ms`), {
          background: true,
        });
      });
      request.on("response", (reply) => {
        hasReply = true;
        features = reply.headers[HEADER.features] as string | undefined;
        resolve({ reply, request, end });
      });
      // After the reply has begun, its reader gets the error.
      request.on("error", (error: NodeJS.ErrnoException) => {
        if (hasReply) return;
        end();
        const isStale = request.reusedSocket && (error.code === "ECONNRESET" || error.code === "EPIPE");
        if (isStale && !isAgain && !isClosed && !signal?.aborted) resolve(exchange(route, ask, true));
        else reject(unreachable(target, error, isSent));
      });
      if (signal?.aborted) onAbort();
      else request.end(ask.body);
    });
  }

  async function json<T>(route: RouteName, ask: ServerCallRequest): Promise<T> {
    const { reply, request, end } = await exchange(route, ask);
    try {
      const text = await readAll(address, reply, request);
      const status = reply.statusCode ?? 0;
      if (status < 200 || status > 299) throw refusal(target, status, reply.headers["retry-after"], text);
      return parseReply(address.shown, reply.statusCode ?? 0, reply.headers["content-type"], text);
    } finally {
      end();
    }
  }

  async function* bytes(route: RouteName, ask: ServerCallRequest): AsyncGenerator<Buffer> {
    const { reply, request, end } = await exchange(route, ask);
    end(); // from here on each wait has its own time limit
    const status = reply.statusCode ?? 0;
    if (status !== 200) {
      throw refusal(target, status, reply.headers["retry-after"], await readAll(address, reply, request));
    }
    const waitMs = ask.totalMs ?? TOTAL_MS;
    const arm = () =>
      clock.after(waitMs, () => reply.destroy(new Error(`no data for ${waitMs} ms`)), { background: true });
    let cancel = arm();
    inProgress.add(request);
    const onAbort = () => reply.destroy(new Error("cancelled by the caller"));
    ask.signal?.addEventListener("abort", onAbort);
    try {
      if (ask.signal?.aborted) onAbort();
      for await (const chunk of reply) {
        cancel();
        yield chunk as Buffer;
        cancel = arm();
      }
      if (!reply.complete) throw new Error("the reply was cut short");
    } catch (error) {
      throw unreachable(target, error);
    } finally {
      cancel();
      ask.signal?.removeEventListener("abort", onAbort);
      inProgress.delete(request);
    }
  }

  return {
    shown: address.shown,
    json,
    bytes,
    serverKnows: (feature) => namesFeature(features, feature),
    close() {
      isClosed = true;
      for (const request of inProgress) request.destroy(new Error("the link to the server was closed"));
      address.agent.destroy();
    },
  };
}

function readAll({ shown }: ServerAddress, reply: IncomingMessage, request: ClientRequest): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const fail = (error: Error) => reject(unreachable({ server: shown }, error));
    reply.on("data", (chunk: Buffer) => {
      size += chunk.length;
      chunks.push(chunk);
      if (size <= MAX_REPLY) return;
      reject(tooLarge(shown, MAX_REPLY));
      request.destroy();
    });
    reply.on("end", () => {
      if (!reply.complete) return fail(new Error("the reply was cut short"));
      resolve(
        chunks.length === 1 ? (chunks[0] as Buffer).toString("utf8") : Buffer.concat(chunks, size).toString("utf8"),
      );
    });
    reply.on("error", fail);
    reply.on("close", () => fail(new Error("the reply was cut short"))); // ignored after the end
  });
}
