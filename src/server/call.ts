/** The call that a handler gets for a request, and the reply for the value that it returns. */
import { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Auth } from "./auth.ts";
import { textOf } from "./content.ts";
import { Download, HIJACKED, JsonText, type Principal, type RouteCall } from "./context.ts";

/** The abort signals of calls in progress, created only for handlers that use them. */
export class CallSignals {
  readonly #live = new Set<AbortController>();
  #stopped = false;

  abortAll(): void {
    this.#stopped = true;
    for (const controller of this.#live) controller.abort();
  }

  /** `onTokenEnd` registers a callback for the end of the caller's token, and returns a function that removes it. */
  of(reply: FastifyReply, onTokenEnd: (listener: () => void) => () => void): AbortSignal {
    const controller = new AbortController();
    if (this.#stopped || reply.raw.closed) {
      controller.abort();
      return controller.signal;
    }
    this.#live.add(controller);
    const abort = () => controller.abort();
    const forget = onTokenEnd(abort);
    // Also after a complete reply; there are no listeners any more then.
    reply.raw.once("close", () => {
      this.#live.delete(controller);
      forget();
      abort();
    });
    return controller.signal;
  }
}

/** What aborts held calls. */
export interface CallEnds {
  readonly signals: CallSignals;
  readonly auth: Pick<Auth, "onEnd">;
}

export class RequestCall implements RouteCall {
  readonly who: Principal;
  readonly namespace: string;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly #ends: CallEnds;
  #signal: AbortSignal | null = null;
  #isTokenOver = false;

  constructor(who: Principal, request: FastifyRequest, reply: FastifyReply, ends: CallEnds) {
    this.who = who;
    this.namespace = request.namespace;
    this.request = request;
    this.reply = reply;
    this.#ends = ends;
  }

  get params(): Readonly<Record<string, string>> {
    const params = (this.request.params ?? {}) as Record<string, unknown>;
    return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, String(value)]));
  }
  get query(): Readonly<Record<string, unknown>> {
    return (this.request.query ?? {}) as Record<string, unknown>;
  }
  get body(): unknown {
    return this.request.body;
  }
  get text(): string {
    return textOf(this.request);
  }
  get signal(): AbortSignal {
    this.#signal ??= this.#ends.signals.of(this.reply, (abort) =>
      this.#ends.auth.onEnd(this.who, () => {
        this.#isTokenOver = true;
        abort();
      }),
    );
    return this.#signal;
  }
  get isTokenOver(): boolean {
    return this.#isTokenOver;
  }
}

export function sendResult(reply: FastifyReply, result: unknown, status: number): FastifyReply {
  if (result === HIJACKED) return reply;
  if (result === undefined) return reply.code(204).send();
  if (result instanceof Download) return sendDownload(reply, result);
  if (result instanceof JsonText) return sendJson(reply, result.text, result.status ?? status);
  return sendJson(reply, JSON.stringify(result), status);
}

export function sendJson(reply: FastifyReply, text: string, status: number): FastifyReply {
  return reply.code(status).header("content-type", "application/json; charset=utf-8").send(text);
}

/** As an attachment: the bytes come from untrusted jobs, and a browser must not render them in this origin. */
function sendDownload(reply: FastifyReply, { source, headers }: Download): FastifyReply {
  const stream = source instanceof Readable ? source : Readable.from(source, { objectMode: false });
  return reply
    .headers({
      "content-type": "application/octet-stream",
      "content-disposition": "attachment",
      "content-security-policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
      ...headers,
    })
    .send(stream);
}
