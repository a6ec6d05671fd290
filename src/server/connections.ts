/** The connections of the server from the moment they are accepted, before TLS and HTTP. A connection is anonymous until a valid
 *  token has been sent over it. Anonymous connections share what the reserve leaves them, and idle ones are closed to make room,
 *  the oldest of the address with the most first. A connection with a request in progress, or one that was used with a valid token
 *  within the last seconds, is never closed for room. Peers that do not read their replies are disconnected. */
import type { Socket } from "node:net";
import type { Clock } from "../lib/clock.ts";
import type { ServerLog } from "./log.ts";
import { networkOf } from "./tokens.ts";

/** While replies hold too much memory, a peer that reads slower than this for this long is disconnected. */
const SLOW_MS = 2_000;
const SLOW_BYTES_PER_MS = 16;

/** Detects a peer that does not read its reply, by comparing bytes between two checks. Bytes that the kernel has accepted count as
 *  read. A reply that is written in one piece shows no progress until it is complete. */
export class WriteProgress {
  /** Since when nothing was read, and since when there has always been something to read. */
  #stalledSince: number | null = null;
  #pendingSince = 0;
  #pendingFrom = 0;
  #flushed = 0;

  isStuck(socket: Socket, now: number, isPressed: boolean, writeMs: number): boolean {
    const pending = socket.writableLength;
    const flushed = socket.bytesWritten - pending;
    const before = this.#flushed;
    this.#flushed = flushed;
    if (pending === 0) {
      this.#stalledSince = null;
      return false;
    }
    if (this.#stalledSince === null) {
      this.#stalledSince = now;
      this.#pendingSince = now;
      this.#pendingFrom = flushed;
      return false;
    }
    if (flushed !== before) this.#stalledSince = now;
    const pendingMs = now - this.#pendingSince;
    const isSlow = pendingMs >= SLOW_MS && flushed - this.#pendingFrom < pendingMs * SLOW_BYTES_PER_MS;
    return now - this.#stalledSince >= writeMs || (isPressed && isSlow);
  }
}

export interface ConnectionLimits {
  readonly max: number;
  /** How many of these are reserved for connections with a valid token. */
  readonly reserved: number;
  /** Anonymous connections of one address (IPv6: of a /64 network). Not enforced in their first second, since every connection
   *  is anonymous until its first request has been read. */
  readonly perAddress: number;
  /** The highest file descriptor that a connection may have; the kernel assigns the lowest free one. When the process has none
   *  left, Node closes connections as they are accepted, without an event. */
  readonly maxDescriptor: number;
  /** Time limit of a TLS handshake. */
  readonly handshakeMs: number;
  /** How long a peer may read nothing of its reply. */
  readonly writeMs: number;
}

export interface ServerConnection {
  /** The accepted socket. */
  readonly raw: Socket;
  /** The socket for HTTP; null during the TLS handshake. */
  socket: Socket | null;
  readonly network: string;
  readonly openedAt: number;
  isAnonymous: boolean;
  isBusy: boolean;
  idleSince: number;
  /** Bytes read until it became idle. If more have been read since, a request is arriving. */
  readUntilIdle: number;
  /** When the last reply was sent; the peer gets some time to read it. */
  closingSince: number | null;
  readonly writes: WriteProgress;
}

/** The anonymous connections of one address; `idle` has the oldest first. */
interface AnonymousGroup {
  count: number;
  readonly idle: Set<ServerConnection>;
}

const SWEEP_EVERY_MS = 1_000;
/** From accept to the first request. */
const YOUNG_MS = 1_000;
/** An authenticated client probably uses the connection again within this time. */
const RECENT_MS = 10_000;
/** Time for the peer to read the error: closing a socket with unread input discards what was written last. */
const LINGER_MS = 1_000;
const LOG_EVERY_MS = 10_000;
const NONE_CLOSED = { refused: 0, forRoom: 0, handshakeTimeouts: 0, writeTimeouts: 0 };

export class ServerConnections {
  readonly #limits: ConnectionLimits;
  readonly #clock: Clock;
  readonly #log: ServerLog;
  /** Whether replies hold too much memory. */
  readonly #isPressed: () => boolean;
  readonly #all = new Set<ServerConnection>();
  readonly #bySocket = new WeakMap<Socket, ServerConnection>();
  readonly #byPeer = new Map<string, ServerConnection>();
  readonly #groups = new Map<string, AnonymousGroup>();
  /** Idle authenticated connections, the longest idle first. */
  readonly #idleAuthenticated = new Set<ServerConnection>();
  #anonymous = 0;
  /** At most the smallest time limit that it enforces. */
  readonly #sweepEveryMs: number;
  #cancelSweep: (() => void) | null = null;
  #closed = { ...NONE_CLOSED };
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(limits: ConnectionLimits, clock: Clock, log: ServerLog, isPressed: () => boolean) {
    this.#limits = limits;
    this.#sweepEveryMs = Math.min(SWEEP_EVERY_MS, limits.handshakeMs, limits.writeMs);
    this.#clock = clock;
    this.#log = log;
    this.#isPressed = isPressed;
  }

  get size(): number {
    return this.#all.size;
  }

  get anonymous(): number {
    return this.#anonymous;
  }

  /** A connection was accepted. It is kept, perhaps instead of another one, or destroyed. */
  open(raw: Socket, isTls: boolean): void {
    if (!this.#makeRoom(descriptorOf(raw))) {
      this.#closed.refused += 1;
      this.#sweepSoon();
      raw.destroy();
      return;
    }
    const now = this.#clock.monotonic();
    const connection: ServerConnection = {
      ...{ raw, socket: isTls ? null : raw, network: networkOf(raw.remoteAddress ?? ""), openedAt: now },
      ...{ isAnonymous: true, isBusy: false, idleSince: now, readUntilIdle: 0 },
      ...{ closingSince: null, writes: new WriteProgress() },
    };
    this.#all.add(connection);
    this.#bySocket.set(raw, connection);
    const peer = peerOf(raw);
    if (isTls) this.#byPeer.set(peer, connection);
    this.#anonymous += 1;
    const group = this.#groupOf(connection);
    group.count += 1;
    group.idle.add(connection);
    raw.once("close", () => {
      if (this.#byPeer.get(peer) === connection) this.#byPeer.delete(peer);
      this.#forget(connection);
    });
    this.#trim(group, now);
    this.#sweepSoon();
  }

  /** The TLS handshake is done; `socket` is for HTTP. */
  secured(socket: Socket): void {
    const connection = this.#byPeer.get(peerOf(socket));
    if (connection === undefined) {
      socket.destroy(); // already closed
      return;
    }
    connection.socket = socket;
    this.#bySocket.set(socket, connection);
  }

  of(socket: Socket): ServerConnection | undefined {
    return this.#bySocket.get(socket);
  }

  /** A request is in progress. */
  begin(connection: ServerConnection): void {
    if (connection.isBusy) return;
    connection.isBusy = true;
    this.#groups.get(connection.network)?.idle.delete(connection);
    this.#idleAuthenticated.delete(connection);
  }

  /** Its reply has been sent. */
  end(connection: ServerConnection): void {
    if (!connection.isBusy || !this.#all.has(connection)) return;
    connection.isBusy = false;
    connection.idleSince = this.#clock.monotonic();
    connection.readUntilIdle = connection.socket?.bytesRead ?? 0;
    if (connection.isAnonymous) this.#groupOf(connection).idle.add(connection);
    else this.#idleAuthenticated.add(connection);
  }

  /** A valid token was sent over it. */
  authenticated(socket: Socket): void {
    const connection = this.#bySocket.get(socket);
    if (connection?.isAnonymous !== true || !this.#all.has(connection)) return;
    this.#leaveGroup(connection);
    connection.isAnonymous = false;
    if (!connection.isBusy) this.#idleAuthenticated.add(connection);
  }

  /** Sends a last reply, gives the peer a moment to read it, and destroys the socket. */
  endWith(socket: Socket, text: string): void {
    const connection = this.#bySocket.get(socket);
    if (connection === undefined) {
      socket.destroy();
      return;
    }
    connection.closingSince ??= this.#clock.monotonic();
    socket.end(text);
  }

  /** The process has no file descriptors left: closes a few connections. */
  shed(count: number): void {
    for (let i = 0; i < count; i++) if (!this.#closeAnonymous() && !this.#closeIdleAuthenticated()) return;
  }

  closeIdle(): void {
    for (const connection of this.#all) if (!connection.isBusy) destroy(connection);
  }

  closeAll(): void {
    this.#cancelSweep?.();
    this.#cancelSweep = null;
    for (const connection of this.#all) destroy(connection);
  }

  #makeRoom(descriptor: number): boolean {
    const { max, reserved, maxDescriptor } = this.#limits;
    if (this.#all.size >= max || descriptor > maxDescriptor) {
      return this.#closeAnonymous() || this.#closeIdleAuthenticated();
    }
    // If all are young or have a request in progress, the reserve is used: each of them will soon be authenticated or closed.
    if (this.#anonymous >= max - reserved) this.#closeAnonymous(this.#clock.monotonic() - YOUNG_MS);
    return true;
  }

  /** Closes the oldest idle one of the address that has the most. */
  #closeAnonymous(openedBefore = Number.POSITIVE_INFINITY): boolean {
    let most: AnonymousGroup | null = null;
    for (const group of this.#groups.values()) {
      if (group.idle.size > (most?.idle.size ?? 0)) most = group;
    }
    const [oldest] = most?.idle ?? [];
    if (oldest === undefined || oldest.openedAt > openedBefore) return false;
    this.#close(oldest, "forRoom");
    return true;
  }

  #closeIdleAuthenticated(): boolean {
    const until = this.#clock.monotonic() - RECENT_MS;
    for (const connection of this.#idleAuthenticated) {
      if (connection.idleSince > until) return false;
      if ((connection.socket?.bytesRead ?? 0) !== connection.readUntilIdle) continue;
      this.#close(connection, "forRoom");
      return true;
    }
    return false;
  }

  /** Enforces the limit of one address. */
  #trim(group: AnonymousGroup, now: number): void {
    for (const connection of group.idle) {
      if (group.count <= this.#limits.perAddress || connection.openedAt > now - YOUNG_MS) return;
      this.#close(connection, "forRoom");
    }
  }

  #close(connection: ServerConnection, why: keyof typeof NONE_CLOSED): void {
    this.#closed[why] += 1;
    this.#forget(connection);
    destroy(connection);
  }

  #forget(connection: ServerConnection): void {
    if (!this.#all.delete(connection)) return;
    this.#idleAuthenticated.delete(connection);
    if (connection.isAnonymous) this.#leaveGroup(connection);
  }

  #groupOf({ network }: ServerConnection): AnonymousGroup {
    let group = this.#groups.get(network);
    if (group === undefined) {
      group = { count: 0, idle: new Set() };
      this.#groups.set(network, group);
    }
    return group;
  }

  #leaveGroup(connection: ServerConnection): void {
    this.#anonymous -= 1;
    const group = this.#groupOf(connection);
    group.count -= 1;
    group.idle.delete(connection);
    if (group.count === 0) this.#groups.delete(connection.network);
  }

  /** One timer for all connections. */
  #sweepSoon(): void {
    this.#cancelSweep ??= this.#clock.after(this.#sweepEveryMs, () => this.#sweep(), { background: true });
  }

  #sweep(): void {
    this.#cancelSweep = null;
    const now = this.#clock.monotonic();
    const isPressed = this.#isPressed();
    for (const connection of this.#all) {
      const { socket, openedAt, closingSince } = connection;
      if (socket === null) {
        if (now - openedAt >= this.#limits.handshakeMs) this.#close(connection, "handshakeTimeouts");
      } else if (closingSince !== null && now - closingSince >= Math.min(LINGER_MS, this.#sweepEveryMs))
        destroy(connection);
      else if (connection.writes.isStuck(socket, now, isPressed, this.#limits.writeMs)) {
        this.#close(connection, "writeTimeouts");
      }
    }
    for (const group of this.#groups.values()) this.#trim(group, now);
    while (this.#anonymous > this.#limits.max - this.#limits.reserved && this.#closeAnonymous(now - YOUNG_MS));
    this.#report(now);
    if (this.#all.size > 0) this.#sweepSoon();
  }

  /** Logs one line for all connections closed since the last one. */
  #report(now: number): void {
    const isQuiet = Object.values(this.#closed).every((count) => count === 0);
    if (isQuiet || now - this.#loggedAt < LOG_EVERY_MS) return;
    this.#loggedAt = now;
    const { size, anonymous } = this;
    this.#log("warn", "connections closed", { ...this.#closed, open: size, anonymous });
    this.#closed = { ...NONE_CLOSED };
  }
}

function destroy({ raw, socket }: ServerConnection): void {
  socket?.destroy();
  raw.destroy();
}

/** The file descriptor, if Node exposes it. */
function descriptorOf(raw: Socket): number {
  return (raw as unknown as { readonly _handle?: { readonly fd?: number } })._handle?.fd ?? -1;
}

/** Identifies a connection by its peer, since the TLS socket is not the accepted one. */
function peerOf({ remoteAddress = "", remotePort = 0, localPort = 0 }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localPort}`;
}
