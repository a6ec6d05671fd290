/** Runs the requests of one connection one after the other. Node parses pipelined requests ahead and starts all of them at once;
 *  here the next one is started when the reply to the previous one has been sent. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Waiting requests per connection. Our clients do not pipeline; some others send a few requests ahead. */
export const MAX_AHEAD = 32;
/** On all connections together. Each takes a few kilobytes. */
export const MAX_AHEAD_IN_ALL = 2_000;

type StartRequest = () => void;

interface ConnectionQueue {
  /** A request of this connection is in progress. */
  isBusy: boolean;
  readonly waiting: StartRequest[];
}

export class PipelinedRequests {
  readonly #queues = new WeakMap<Socket, ConnectionQueue>();
  #waiting = 0;

  /** Starts the request now or later. A connection with too many waiting requests is destroyed. */
  take({ socket }: IncomingMessage, response: ServerResponse, start: StartRequest): void {
    const queue = this.#queueOf(socket);
    const run = () => {
      queue.isBusy = true;
      response.once("close", () => this.#next(socket, queue));
      start();
    };
    if (!queue.isBusy) run();
    else if (queue.waiting.length >= MAX_AHEAD || this.#waiting >= MAX_AHEAD_IN_ALL) socket.destroy();
    else {
      queue.waiting.push(run);
      this.#waiting += 1;
      // No further requests are read until the queue is empty.
      socket.pause();
    }
  }

  #queueOf(socket: Socket): ConnectionQueue {
    const known = this.#queues.get(socket);
    if (known !== undefined) return known;
    const queue: ConnectionQueue = { isBusy: false, waiting: [] };
    this.#queues.set(socket, queue);
    socket.once("close", () => this.#drop(queue));
    return queue;
  }

  #next(socket: Socket, queue: ConnectionQueue): void {
    queue.isBusy = false;
    if (socket.destroyed) this.#drop(queue);
    const run = queue.waiting.shift();
    if (run === undefined) {
      if (!socket.destroyed && socket.isPaused()) socket.resume();
      return;
    }
    this.#waiting -= 1;
    run();
  }

  #drop({ waiting }: ConnectionQueue): void {
    this.#waiting -= waiting.length;
    waiting.length = 0;
  }
}
