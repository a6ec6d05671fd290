/** The listener under the routes: limits on connections, descriptors and headers, one request of a connection at a
 *  time, the guard before the router, and a stop that lets requests in progress finish. */

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import {
  createServer as createHttp,
  type IncomingMessage,
  type Server as NodeServer,
  type ServerResponse,
} from "node:http";
import { createServer as createHttps } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { hostname } from "node:os";
import { HEADER } from "../contract/wire.ts";
import { ConfigError, PerdureError } from "../core/errors.ts";
import { type Clock, sleep } from "../lib/clock.ts";
import { ConnectionPriority } from "./connection-priority.ts";
import { type ServerConnection, ServerConnections } from "./connections.ts";
import { answerTo } from "./error-reply.ts";
import type { ServerLog } from "./log.ts";
import { PipelinedRequests } from "./pipelined-requests.ts";
import { createGuard, isLoopback, setSecurityHeaders } from "./request-guard.ts";
import { type ErrorForms, formed } from "./served-route.ts";

/** The limit of file descriptors of this process; Node raises the soft limit to the hard one. Null if it is not known, as on systems
 *  without /proc. */
function openFilesLimit(): number | null {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return soft === undefined ? null : Number(soft);
  } catch {
    return null;
  }
}

/** File descriptors reserved for the store, for output files and for programs: a quarter, at most this. */
const MAX_KEPT = 512;

interface ConnectionCapacity {
  readonly max: number;
  readonly maxDescriptor: number;
}

/** The number of connections that leaves enough file descriptors for everything else. If everything else takes more than was
 *  reserved, connections still leave half of the reserve. */
export function connectionsWithin(wanted: number, openFiles: number | null): ConnectionCapacity {
  if (openFiles === null) return { max: wanted, maxDescriptor: Number.POSITIVE_INFINITY };
  const kept = Math.min(MAX_KEPT, Math.ceil(openFiles / 4));
  return { max: Math.max(1, Math.min(wanted, openFiles - kept)), maxDescriptor: openFiles - Math.floor(kept / 2) };
}

export interface ListenOptions {
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
  readonly tls: { readonly cert: string | Buffer; readonly key: string | Buffer } | null;
  /** Further values of the Host header that are accepted. */
  readonly allowHosts: readonly string[];
  /** Permit listening for other machines without TLS. */
  readonly insecure: boolean;
  readonly maxConnections: number;
  /** Connections of one address over which no valid token has been sent. */
  readonly maxPerAddress: number;
  /** Time limit of a TLS handshake, and of the head of the first request after it. */
  readonly headersMs: number;
  /** How long a peer may read nothing of its reply. */
  readonly writeMs: number;
}

type NodeHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** The share of connections reserved for callers with a valid token, which a flood of others cannot use. */
const RESERVED = 1 / 4;
/** Connections that are closed when no file descriptor is left. */
const SHED = 16;
const TROUBLE_EVERY_MS = 10_000;
/** Connections that the kernel queues until they are accepted (it may queue fewer: somaxconn). Others are retried by the client after a
 *  second. */
const BACKLOG = 4_096;

/** Listeners of one event of a response. A large reply to a claim has 11 for "close": six of the server, three for sending it as a
 *  stream, two of Fastify. Node's default of 10 would warn of a leak. */
const MAX_LISTENERS = 20;

const ids = new WeakMap<IncomingMessage, string>();

export function requestIdOf(request: IncomingMessage): string {
  return ids.get(request) ?? "";
}

export interface Listening {
  /** For other machines; has the name of this machine if the server listens on all interfaces. */
  readonly url: string;
  /** For callers on this machine. */
  readonly localUrl: string;
  readonly port: number;
}

interface HttpServerHooks {
  /** Whether memory for replies is short, so that slow readers must be disconnected. */
  readonly isPressed: () => boolean;
  readonly errorForms: ErrorForms;
}

export class HttpServer {
  readonly node: NodeServer;
  /** A second listener without TLS on loopback, for our own workers: certificates contain only the public names. */
  readonly #local: NodeServer | null;
  readonly #options: ListenOptions;
  readonly #clock: Clock;
  readonly #log: ServerLog;
  readonly #connections: ServerConnections;
  /** The response to the latest request of each connection. */
  readonly #current = new WeakMap<ServerConnection, ServerResponse>();
  readonly #inProgress = new Set<ServerResponse>();
  #stopping = false;
  #whenIdle: () => void = () => {};

  constructor(
    options: ListenOptions,
    clock: Clock,
    log: ServerLog,
    handle: NodeHandler,
    { isPressed = () => false, errorForms = () => null }: Partial<HttpServerHooks> = {},
  ) {
    checkHost(options);
    this.#options = options;
    this.#clock = clock;
    this.#log = log;
    const { tls, host, allowHosts, headersMs, writeMs } = options;
    const limits = {
      ...{ maxHeaderSize: 16_384, requireHostHeader: true, insecureHTTPParser: false, noDelay: true },
      // These limit requests, not replies: a held request has been read completely.
      ...{ headersTimeout: headersMs, requestTimeout: Math.max(30_000, headersMs), keepAliveTimeout: 65_000 },
      connectionsCheckingInterval: Math.min(2_000, headersMs),
    };
    const capacity = this.#capacity();
    const shares = { ...capacity, reserved: Math.floor(capacity.max * RESERVED), perAddress: options.maxPerAddress };
    this.#connections = new ServerConnections({ ...shares, handshakeMs: headersMs, writeMs }, clock, log, isPressed);
    this.node = tls === null ? createHttp(limits) : createHttps({ ...limits, ...tls, handshakeTimeout: headersMs });
    this.#local = tls === null ? null : createHttp(limits);
    this.#local?.on("clientError", (error, socket) => this.onClientError(error, socket as Socket));
    const pipelined = new PipelinedRequests();
    const priority = new ConnectionPriority(clock);
    for (const [node, isTls] of [[this.node, tls !== null] as const, [this.#local, false] as const]) {
      const guard = createGuard({ host, allowHosts, tls: isTls });
      node?.on("connection", (raw: Socket) => {
        priority.accepted();
        this.#connections.open(raw, isTls);
      });
      if (isTls) node?.on("secureConnection", (socket: Socket) => this.#connections.secured(socket));
      node?.on("request", (request: IncomingMessage, response: ServerResponse) => {
        pipelined.take(request, response, () => {
          const id = `req_${randomBytes(12).toString("hex")}`;
          ids.set(request, id);
          setSecurityHeaders(response);
          response.setHeader(HEADER.requestId, id);
          this.#track(request, response);
          priority.take(() => {
            if (response.closed) return;
            const refused = this.#stopping && !isProbe(request) ? STOPPING : guard(request);
            if (refused === null) handle(request, response);
            else refuse(request, response, refused, { id, log, errorForms });
          });
        });
      });
    }
  }

  /** A valid token was sent over this connection. */
  authenticated(socket: Socket): void {
    this.#connections.authenticated(socket);
  }

  async listen(): Promise<Listening> {
    const { host, port: wanted, tls } = this.#options;
    const port = await listenOn(this.node, host, wanted);
    for (const node of [this.node, this.#local]) node?.on("error", (error) => this.#onListenerError(error));
    const isEverywhere = host === "0.0.0.0" || host === "::";
    const name = isEverywhere ? hostname() : host.includes(":") ? `[${host}]` : host;
    const url = `${tls === null ? "http" : "https"}://${name}:${port}`;
    if (this.#local === null) return { url, localUrl: isEverywhere ? `http://127.0.0.1:${port}` : url, port };
    return { url, localUrl: `http://127.0.0.1:${await listenOn(this.#local, "127.0.0.1", 0)}`, port };
  }

  /** Refuses new requests, waits up to `graceMs` for those in progress, and then closes all connections. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    const nodes = [this.node, ...(this.#local === null ? [] : [this.#local])];
    const closed = Promise.all(nodes.map((node) => new Promise<void>((resolve) => node.close(() => resolve()))));
    for (const response of this.#inProgress) if (!response.headersSent) response.setHeader("connection", "close");
    const idle = new Promise<void>((resolve) => {
      this.#whenIdle = resolve;
      if (this.#inProgress.size === 0) resolve();
    });
    this.#connections.closeIdle();
    await Promise.race([idle, sleep(this.#clock, graceMs, { background: true })]);
    // Also those that Node does not close: in a handshake, or half closed.
    this.#connections.closeAll();
    await closed;
  }

  /** A request that is not valid HTTP, or too slow. The connection is closed, since the start of the next request is not known. */
  onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.#connections.of(socket);
    if (connection === undefined || error.code === "ECONNRESET" || !socket.writable || this.#isAnswering(connection)) {
      socket.destroy();
      connection?.raw.destroy();
      return;
    }
    this.#connections.endWith(socket, unreadable(error.code ?? ""));
  }

  /** Whether an error reply would be mistaken for the reply to the previous request, or be mixed with it. */
  #isAnswering(connection: ServerConnection): boolean {
    const response = this.#current.get(connection);
    return response !== undefined && connection.isBusy && (response.headersSent || response.req.complete);
  }

  /** Accepting failed, mostly for lack of file descriptors. Node continues to accept. */
  #onListenerError(error: NodeJS.ErrnoException): void {
    this.#connections.shed(SHED);
    const now = this.#clock.monotonic();
    if (now - this.#troubleAt < TROUBLE_EVERY_MS) return;
    this.#troubleAt = now;
    this.#log("error", "accept failed", { code: error.code, error, open: this.#connections.size });
  }
  #troubleAt = Number.NEGATIVE_INFINITY;

  #capacity(): ConnectionCapacity {
    const { maxConnections } = this.#options;
    const openFiles = openFilesLimit();
    const capacity = connectionsWithin(maxConnections, openFiles);
    if (capacity.max < maxConnections) {
      const fix = "raise the limit of open files (ulimit -n, LimitNOFILE) or lower server.maxConnections";
      this.#log("warn", "connections limited by open files", { maxConnections, openFiles, limit: capacity.max, fix });
    }
    return capacity;
  }

  #track(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#connections.of(request.socket);
    if (connection !== undefined) {
      this.#connections.begin(connection);
      this.#current.set(connection, response);
    }
    response.setMaxListeners(MAX_LISTENERS);
    this.#inProgress.add(response);
    response.once("close", () => {
      if (connection !== undefined) this.#connections.end(connection);
      this.#inProgress.delete(response);
      if (this.#stopping && this.#inProgress.size === 0) this.#whenIdle();
    });
  }
}

/** Listens and returns the port. */
function listenOn(node: NodeServer, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    node.once("error", reject);
    node.listen({ host, port, backlog: BACKLOG }, () => {
      node.removeListener("error", reject);
      resolve((node.address() as AddressInfo).port);
    });
  });
}

const STOPPING = new PerdureError("closed", "the server is shutting down");

/** Probes are answered during a shutdown too. */
function isProbe({ url }: IncomingMessage): boolean {
  return url === "/healthz" || url === "/readyz";
}

function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  error: PerdureError,
  { id, log, errorForms }: { readonly id: string; readonly log: ServerLog; readonly errorForms: ErrorForms },
): void {
  const answer = answerTo(error, id, log);
  const { method, socket } = request;
  const { status, headers, body } = formed(answer, errorForms(request.url ?? ""), request.headers);
  log("info", "refused", { requestId: id, status, code: answer.body.code, method, from: socket.remoteAddress });
  // Further requests of this connection are not trusted either.
  const type = "application/json; charset=utf-8";
  response.writeHead(status, { ...headers, "content-type": type, connection: "close" }).end(JSON.stringify(body));
}

function unreadable(code: string): string {
  const statuses: Readonly<Record<string, string>> = {
    HPE_HEADER_OVERFLOW: "431 Request Header Fields Too Large",
    ERR_HTTP_REQUEST_TIMEOUT: "408 Request Timeout",
  };
  const status = statuses[code] ?? "400 Bad Request";
  const body = JSON.stringify({ code: "invalid_request", message: "the request is not valid HTTP", path: null });
  const head = `HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`;
  return `${head}\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n\r\n${body}`;
}

/** Refuses an address that other machines reach without encryption. */
export function checkHost({ host, tls, insecure }: Pick<ListenOptions, "host" | "tls" | "insecure">): void {
  if (tls !== null || insecure || isLoopback(host)) return;
  throw new ConfigError({
    path: "server.host",
    given: host,
    problem: `${host} accepts connections from other machines, and tokens would be sent unencrypted`,
    fix:
      "use a loopback address such as 127.0.0.1, pass --tls-cert/--tls-key, or pass --insecure to accept the risk, " +
      "for example behind a TLS proxy",
  });
}
