/** What every request passes between the router and its handler: authentication for the matched route, the type of the body,
 *  admission, the schema, the access log; and the handling of errors. */

import type { Socket } from "node:net";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { OWN_FEATURES } from "../contract/features.ts";
import { HEADER } from "../contract/wire.ts";
import { PerdureError } from "../core/errors.ts";
import type { StoreState } from "../engine/store-state.ts";
import type { Admission, AdmissionTicket } from "./admission.ts";
import { type AnonymousAccess, type Auth, namespaceOf } from "./auth.ts";
import { sendJson } from "./call.ts";
import { checkInput } from "./check-input.ts";
import { addParsers, checkContent, isOfUnknownSize, textOf } from "./content.ts";
import type { Principal } from "./context.ts";
import { answerTo } from "./error-reply.ts";
import type { ServerLog } from "./log.ts";
import { type ErrorForms, formed, type ServedRoute } from "./served-route.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    readonly served?: ServedRoute;
  }
  interface FastifyRequest {
    /** Null only on routes that are open to all. */
    who: Principal | null;
    namespace: string;
    ticket: AdmissionTicket | null;
  }
}

export interface Pipeline {
  readonly auth: Auth;
  readonly admission: Admission;
  readonly bodyLimit: number;
  readonly log: ServerLog;
  /** A valid token was sent over this connection. */
  readonly authenticated: (socket: Socket) => void;
  readonly storeState: Pick<StoreState, "failed">;
  readonly errorForms: ErrorForms;
  /** The anonymous access of the routes near this address; null if there is none. */
  readonly anonymousAt: (url: string) => AnonymousAccess | null;
}

export function addPipeline(app: FastifyInstance, pipeline: Pipeline): void {
  const { auth, admission, bodyLimit, log, authenticated, anonymousAt } = pipeline;
  app.decorateRequest("who", null);
  app.decorateRequest("namespace", "default");
  app.decorateRequest("ticket", null);
  addParsers(app, bodyLimit);

  app.addHook("onRequest", async (request, reply) => {
    // First of all, so that errors have the features of this server too.
    if (request.headers[HEADER.features] !== undefined) reply.header(HEADER.features, OWN_FEATURES);
    const served = request.is404 ? null : (request.routeOptions.config.served ?? null);
    if (served?.access.open) return;
    // Without a route this always throws: 401 or 404.
    const beside = served === null ? anonymousAt(request.url) : null;
    request.who = await auth.check(request, served?.access ?? null, beside ?? undefined);
    const route = served as ServedRoute;
    if (request.headers.authorization !== undefined) authenticated(request.raw.socket);
    request.namespace = namespaceOf(request.who, request.headers[HEADER.namespace]);
    checkContent(request, route, bodyLimit);
    const ticket = admission.enter(route.share(request), bytesOf(request, route, bodyLimit));
    request.ticket = ticket;
    // The client may have disconnected while its token was checked.
    if (reply.raw.closed) ticket.leave();
    else reply.raw.once("close", () => ticket.leave());
  });
  app.addHook("preHandler", async (request) => {
    const { served } = request.routeOptions.config;
    if (served === undefined) return;
    if (isOfUnknownSize(request)) request.ticket?.read(textOf(request).length);
    checkInput(request, served);
    // A streamed body is read by the handler, at the pace of the client.
    if (served.accepts.includes("application/json")) request.ticket?.begin();
  });
  app.addHook("onResponse", async (request, reply) => {
    const { method, id: requestId, who } = request;
    const { statusCode: status, elapsedTime } = reply;
    const route = request.routeOptions.config.served?.name ?? null;
    const fields = { requestId, method, route, status, ms: Math.round(elapsedTime), who: who?.name ?? null };
    log(status === 401 || status === 403 ? "info" : "debug", "answered", {
      ...fields,
      from: request.socket.remoteAddress,
    });
  });

  const fail = errorSender(pipeline);
  app.setErrorHandler((error, request, reply) => fail(error, request, reply));
  // Required by Fastify; authentication has already answered.
  app.setNotFoundHandler((request, reply) => fail(new PerdureError("not_found", "no such route"), request, reply));
}

/** For a URL that the router cannot parse: answered like one without a route. */
export function answerUnroutable(pipeline: Pipeline) {
  const fail = errorSender(pipeline);
  return async (error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const beside = pipeline.anonymousAt(request.url) ?? undefined;
    const problem: unknown = await pipeline.auth
      .check(request, null, beside)
      .catch((refused: unknown) => refused ?? error);
    fail(problem, request, reply);
  };
}

/** The connection is closed after these statuses, so that others can use its slot, but not after `overloaded`: the client will retry
 *  soon, and a new connection costs more than the request. */
const ENDS: ReadonlySet<number> = new Set([401, 429, 503]);

function errorSender({ log, bodyLimit, storeState, errorForms }: Pipeline) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const served = request.routeOptions.config?.served;
    const answer = answerTo(error, request.id, log, storeState);
    const form = served === undefined ? errorForms(request.url) : (served.errorForm ?? null);
    const { status, headers, body } = formed(answer, form, request.headers);
    if (status === 401) {
      const basic = served?.access.basic === true;
      reply.header("www-authenticate", `${basic ? "Basic" : "Bearer"} realm="Perdure"`);
    }
    const ends = ENDS.has(answer.status) && answer.body.code !== "overloaded";
    if (ends || isTooMuchToSkip(request, bodyLimit)) reply.header("connection", "close");
    return sendJson(reply.headers(headers), JSON.stringify(body), status);
  };
}

/** Whether the rest of a refused body is too long to be read and discarded. A client that is disconnected while it is sending may not
 *  read the error. */
function isTooMuchToSkip({ raw, headers }: FastifyRequest, bodyLimit: number): boolean {
  if (raw.complete) return false;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 4 * bodyLimit;
}

/** The memory that a body may take. A stream is read in pieces. */
function bytesOf(request: FastifyRequest, route: ServedRoute, bodyLimit: number): number {
  if (!route.accepts.includes("application/json")) return 65_536;
  return isOfUnknownSize(request) ? bodyLimit : Number(request.headers["content-length"] ?? 0);
}
