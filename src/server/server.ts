/** The server: every route of the contract with its handler, behind guard, auth and admission. It does not open
 *  stores, engines or files: the caller passes them, and closes them after `stop`. */

import Fastify, { type FastifyInstance, type FastifyRequest } from "fastify";
import { OPERATIONS } from "../contract/operations.ts";
import { ROUTES, type RouteName } from "../contract/routes.ts";
import type { SettingFact } from "../core/job/views.ts";
import { DIALECT_DEFAULTS, type DialectSettings } from "../dialects/settings.ts";
import { ADMISSION, Admission, type AdmissionLimits } from "./admission.ts";
import { Auth, tokenEnded } from "./auth.ts";
import { CallSignals, RequestCall, sendResult } from "./call.ts";
import { STRICT } from "./check-input.ts";
import {
  Download,
  HIJACKED,
  type Principal,
  type RouteHandler,
  type RouteHandlers,
  SERVER_LIMITS,
  type ServerLimits,
  type ServerParts,
} from "./context.ts";
import { docsRoutes } from "./docs-routes.ts";
import { EventLoopDelay } from "./event-loop-delay.ts";
import { healthRoutes } from "./health-routes.ts";
import { HttpServer, type Listening, type ListenOptions, requestIdOf } from "./http-server.ts";
import { addPipeline, answerUnroutable, type Pipeline } from "./pipeline.ts";
import { ReadGate } from "./read-gate.ts";
import { REPLIES, ReplyBudget, type ReplyLimits } from "./reply-budget.ts";
import { addReplyBudget } from "./reply-hooks.ts";
import { eventRoutes } from "./routes/events.ts";
import { fileRoutes, uploadRoutes } from "./routes/files.ts";
import { jobRoutes } from "./routes/jobs.ts";
import { metaRoutes } from "./routes/meta.ts";
import { queueRoutes } from "./routes/queues.ts";
import { playbookRoutes, runRoutes } from "./routes/runs.ts";
import { sessionRoutes } from "./routes/sessions.ts";
import { tokenRoutes } from "./routes/tokens.ts";
import { workerRoutes } from "./routes/workers.ts";
import { apiRoute, bySection, errorForms, type ServedRoute } from "./served-route.ts";

function allHandlers(parts: ServerParts): RouteHandlers {
  return {
    ...jobRoutes(parts),
    ...eventRoutes(parts),
    ...fileRoutes(parts),
    ...uploadRoutes(parts),
    ...sessionRoutes(parts),
    ...queueRoutes(parts),
    ...runRoutes(parts),
    ...playbookRoutes(parts),
    ...workerRoutes(parts),
    ...tokenRoutes(parts),
    ...metaRoutes(parts),
  };
}

export interface ServerOptions extends Partial<ListenOptions> {
  /** Maximum bytes of a JSON body. */
  readonly bodyLimit?: number;
  /** Maximum bytes of all files of one attempt. */
  readonly outputLimit?: number;
  readonly dialects?: DialectSettings;
  readonly settings?: readonly SettingFact[];
  /** Maximum bytes of all request bodies in progress. */
  readonly maxHeldBytes?: number;
  /** Overrides of the default quotas. */
  readonly limits?: Partial<ServerLimits>;
  /** Overrides of the memory limits of replies. */
  readonly replies?: Partial<ReplyLimits>;
  /** Overrides of the admission limits. */
  readonly admission?: Partial<AdmissionLimits>;
  /** Additional routes. */
  readonly routes?: (parts: ServerParts) => readonly ServedRoute[];
}

export interface Server {
  listen(): Promise<Listening>;
  /** Answers held requests, waits up to `graceMs` for those in progress, then closes all connections. */
  stop(graceMs?: number): Promise<void>;
}

const BODY_LIMIT = 10 * 1024 * 1024;
const OUTPUT_LIMIT = 10 * 1024 * 1024 * 1024;
const STOP_GRACE_MS = 10_000;
const LISTEN: ListenOptions = {
  ...{ host: "127.0.0.1", port: 0, tls: null, allowHosts: [], insecure: false },
  ...{ maxConnections: 2_000, maxPerAddress: 256, headersMs: 10_000, writeMs: 30_000 },
};

export function createServer(
  given: Omit<ServerParts, "stopping" | "outputLimit" | "dialects" | "settings" | "limits">,
  options: ServerOptions = {},
): Server {
  const { bodyLimit = BODY_LIMIT, outputLimit = OUTPUT_LIMIT, routes, maxHeldBytes, ...rest } = options;
  const { dialects = DIALECT_DEFAULTS, settings = [], limits: chosen, replies: replyLimits, ...others } = rest;
  const { admission = {}, ...listen } = others;
  const stopping = new AbortController();
  const limits = { ...SERVER_LIMITS, ...chosen };
  const parts: ServerParts = { ...given, outputLimit, dialects, settings, limits, stopping: stopping.signal };
  const { engine, keys, log, tokens } = parts;
  const { clock } = engine;
  const lag = new EventLoopDelay(clock);
  const signals = new CallSignals();
  const admitted = { ...ADMISSION, maxBytes: maxHeldBytes ?? ADMISSION.maxBytes, ...admission };
  const reads = new ReadGate(admitted.reads, clock);
  const replies = new ReplyBudget({ ...REPLIES, ...replyLimits }, clock);
  const auth = new Auth(tokens, keys, clock, engine.store);
  const served = [...apiRoutes(parts), ...healthRoutes(parts), ...docsRoutes(parts), ...(routes?.(parts) ?? [])];
  const forms = errorForms(served);
  const pipeline: Pipeline = {
    ...{ bodyLimit, log, auth, admission: new Admission(admitted, () => lag.ms, clock) },
    ...{ storeState: engine.storeState, errorForms: forms },
    anonymousAt: bySection(served, ({ access }) => access.anonymous),
    authenticated: (socket) => http?.authenticated(socket),
  };
  const ends = { signals, auth };
  const unroutable = answerUnroutable(pipeline);

  let http: HttpServer | undefined;
  const app = Fastify({
    ...{ logger: false, exposeHeadRoutes: false, bodyLimit, requestIdHeader: false, return503OnClosing: false },
    genReqId: (raw) => requestIdOf(raw as never),
    clientErrorHandler: (error, socket) => http?.onClientError(error, socket),
    frameworkErrors: (error, request, reply) => void unroutable(error, request as never, reply as never),
    routerOptions: {
      ...{ caseSensitive: true, ignoreTrailingSlash: false, ignoreDuplicateSlashes: false },
      ...{ useSemicolonDelimiter: false, maxParamLength: 16_384 }, // names have their limits in the schemas
    },
    ajv: { customOptions: STRICT },
    serverFactory(handle) {
      http = new HttpServer({ ...LISTEN, ...listen }, clock, log, handle as never, {
        isPressed: () => replies.isPressed,
        errorForms: forms,
      });
      return http.node;
    },
  }) as unknown as FastifyInstance;
  const server = http as unknown as HttpServer;

  addReplyBudget(app, replies);
  addPipeline(app, pipeline);
  for (const route of served) {
    app.route({
      method: route.method,
      url: route.path,
      config: { served: route },
      async handler(request, reply) {
        const who = request.who as Principal;
        const call = new RequestCall(who, request, reply, ends);
        const over = isSearch(request) ? await reads.enter(who.id) : null;
        let result: unknown;
        try {
          result = await route.handle(call);
        } finally {
          over?.();
          request.ticket?.done();
        }
        if (call.isTokenOver && result !== HIJACKED) throw tokenEnded();
        // A slow download can take hours: it ends with the token.
        if (result instanceof Download)
          reply.raw.once(
            "close",
            auth.onEnd(who, () => reply.raw.destroy()),
          );
        return sendResult(reply, result, route.status);
      },
    });
  }

  return {
    async listen() {
      await app.ready();
      lag.start();
      return server.listen();
    },
    async stop(graceMs = STOP_GRACE_MS) {
      stopping.abort();
      signals.abortAll();
      await server.stop(graceMs);
      lag.stop();
      await app.close();
    },
  };
}

/** A stream is not a search: it waits for events to come. */
function isSearch(request: FastifyRequest): boolean {
  const { served } = request.routeOptions.config;
  return served?.isSearch === true && served.share(request) === "reader";
}

function apiRoutes(parts: ServerParts): ServedRoute[] {
  const handlers = allHandlers(parts);
  return (Object.keys(ROUTES) as RouteName[]).map((name) => {
    const handler: RouteHandler | undefined = handlers[name];
    if (handler === undefined) throw new Error(`the route ${name} has no handler`);
    return apiRoute(name, ROUTES[name], OPERATIONS[name], handler);
  });
}
