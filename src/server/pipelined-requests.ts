/** Requests of one connection, one after the other. Node reads ahead: of a burst that was sent in one piece it makes all
 *  requests at once, and starts them. Here the next one is started when the reply before it has been sent in full. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** No client of ours sends a request before it has the reply to the one before; some others send a few. */
export const MAX_AHEAD = 32;
/** On all connections together. Each takes some kilobytes. */
export const MAX_AHEAD_IN_ALL = 2_000;

type StartRequest = () => void;

interface ConnectionQueue {
  /** A request of this connection is in progress. */
  isBusy: boolean;
  readonly waiting: StartRequest[];
}

export class PipelinedRequests {
  readonly #lines = new WeakMap<Socket, ConnectionQueue>();
  #waiting = 0;

  /** Starts it now or later. A connection on which too many wait is destroyed. */
  take({ socket }: IncomingMessage, response: ServerResponse, start: StartRequest): void {
    const line = this.#lineOf(socket);
    const run = () => {
      line.isBusy = true;
      response.once("close", () => this.#next(socket, line));
      start();
    };
    if (!line.isBusy) run();
    else if (line.waiting.length >= MAX_AHEAD || this.#waiting >= MAX_AHEAD_IN_ALL) socket.destroy();
    else {
      line.waiting.push(run);
      this.#waiting += 1;
      // What was read of the socket is here already; nothing is to be added to it.
      socket.pause();
    }
  }

  #lineOf(socket: Socket): ConnectionQueue {
    const known = this.#lines.get(socket);
    if (known !== undefined) return known;
    const line: ConnectionQueue = { isBusy: false, waiting: [] };
    this.#lines.set(socket, line);
    socket.once("close", () => this.#drop(line));
    return line;
  }

  #next(socket: Socket, line: ConnectionQueue): void {
    line.isBusy = false;
    if (socket.destroyed) this.#drop(line);
    const run = line.waiting.shift();
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
