import { EventEmitter } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { MAX_AHEAD, MAX_AHEAD_IN_ALL, PipelinedRequests } from "./pipelined-requests.ts";

/** What is used of a socket. */
class Peer extends EventEmitter {
  destroyed = false;
  #isPaused = false;

  isPaused(): boolean {
    return this.#isPaused;
  }
  pause(): void {
    this.#isPaused = true;
  }
  resume(): void {
    this.#isPaused = false;
  }
  destroy(): void {
    this.destroyed = true;
    this.emit("close");
  }
}

/** Requests of a peer; the answer ends the reply. `started` has the names of those that were started. */
function setUp() {
  const turns = new PipelinedRequests();
  const started: string[] = [];
  const take = (peer: Peer, name = "") => {
    const response = new EventEmitter();
    const request = { socket: peer } as unknown as IncomingMessage;
    turns.take(request, response as ServerResponse, () => started.push(name));
    return () => void response.emit("close");
  };
  return { take, started };
}

describe("requests of one connection", () => {
  it("are started in their order, and no more are read while some wait", () => {
    const { take, started } = setUp();
    const peer = new Peer();
    const ends = ["a", "b", "c"].map((name) => take(peer, name));
    expect([started, peer.isPaused()]).toEqual([["a"], true]);
    ends[0]?.();
    ends[1]?.();
    expect([started, peer.isPaused()]).toEqual([["a", "b", "c"], true]);
    ends[2]?.();
    expect(peer.isPaused()).toBe(false);
  });

  it("are too many where more wait than may, on one connection or on all; those of one that has gone count no more", () => {
    const { take } = setUp();
    const peers: Peer[] = [];
    for (let waiting = 0; waiting < MAX_AHEAD_IN_ALL; ) {
      const peer = new Peer();
      take(peer);
      for (let i = 0; i < MAX_AHEAD && waiting < MAX_AHEAD_IN_ALL; i++, waiting++) take(peer);
      peers.push(peer);
    }
    expect(peers.every(({ destroyed }) => !destroyed)).toBe(true);
    const [late, later] = [new Peer(), new Peer()];
    take(late);
    take(late);
    expect(late.destroyed).toBe(true);
    peers[0]?.destroy();
    take(later);
    for (let i = 0; i < MAX_AHEAD; i++) take(later);
    expect(later.destroyed).toBe(false);
    take(later);
    expect(later.destroyed).toBe(true);
  });
});
