/** A route as the server registers it: those of the contract, and the few beside them that are not the API. */
import type { FastifyRequest } from "fastify";
import type { Operation } from "../contract/operations.ts";
import type { Route, RouteName } from "../contract/routes.ts";
import type { Share } from "./admission.ts";
import type { Access } from "./auth.ts";
import type { ErrorForm } from "./error-form.ts";
import type { Handler } from "./parts.ts";

export interface ServedRoute {
  /** For logs. */
  readonly name: string;
  readonly method: Route["method"];
  readonly path: string;
  readonly access: Access;
  /** Types of bodies. JSON is parsed; any other is given to the handler as a stream. */
  readonly accepts: readonly string[];
  /** A type that is not among them is refused also where the body is empty: an empty message of another codec. */
  readonly checksEmptyType?: boolean;
  /** Bodies may be compressed with gzip. */
  readonly takesGzip?: boolean;
  readonly schema: { readonly params?: object; readonly query?: object; readonly body?: object };
  /** No body is as good as an empty object: nothing in it must be there. */
  readonly emptyBody?: boolean;
  /** Of success. */
  readonly status: number;
  readonly share: (request: FastifyRequest) => Share;
  /** A search, a count or a list: few are made at a time. */
  readonly isSearch?: boolean;
  /** Of another system's API: how it reports errors. Ours, where there is none. */
  readonly errorForm?: ErrorForm;
  readonly handle: Handler;
}

const JSON_ONLY = ["application/json"] as const;
/** An object without a single field; also for bodies and queries that nobody reads, so that a mistake is not passed over. */
const NOTHING = { type: "object", properties: {}, additionalProperties: false };

/** Held for as long as their caller asks. */
const HELD: ReadonlySet<string> = new Set<RouteName>(["waitJobs", "claimJobs", "waitForNotice"]);
/** What a job may do with its own token. Everything else is forbidden to it. */
const KIN: ReadonlySet<string> = new Set<RouteName>([
  ...(["submitJob", "submitJobs", "listJobs", "waitJobs", "getJob", "explainJob", "listJobEvents"] as const),
  ...([
    "listAttempts",
    "getLogs",
    "listOutputs",
    "getOutput",
    "setUsage",
    "listWorkers",
    "getDialects",
    "getVersion",
    "getIdentity",
    "getStatus", // for the time: ages in lists are counted from it
    "createUpload",
    "writeUpload",
    "getUpload",
  ] as const),
]);
/** Their work grows with what is stored, or with what one job has left. */
const SEARCHES: ReadonlySet<string> = new Set<RouteName>([
  ...(["listJobs", "listQueues", "listWorkers", "listEvents", "listJobEvents", "explainJob", "listAttempts"] as const),
  ...(["getLogs", "listOutputs"] as const),
]);
const FEEDS: ReadonlySet<string> = new Set<RouteName>(["listEvents", "listJobEvents"]);

export function apiRoute(name: RouteName, route: Route, operation: Operation, handle: Handler): ServedRoute {
  const { method, path, scope } = route;
  const { params, query = NOTHING, bodyType, status = 200 } = operation;
  const body = (operation.body ?? NOTHING) as { readonly required?: readonly string[] };
  const takesJson = method !== "GET" && bodyType === undefined;
  return {
    ...{ name, method, path, access: { scope, kin: KIN.has(name) }, status, handle },
    accepts: bodyType === undefined ? JSON_ONLY : [bodyType],
    schema: { query, ...(params === undefined ? {} : { params }), ...(takesJson ? { body } : {}) },
    emptyBody: (body.required ?? []).length === 0,
    share: (request) => shareOf(name, route, request),
    isSearch: SEARCHES.has(name),
  };
}

function shareOf(name: string, { scope, method }: Route, request: FastifyRequest): Share {
  if (HELD.has(name)) return scope === "work" ? "waiting" : "held";
  if (FEEDS.has(name) && String(request.headers.accept ?? "").includes("text/event-stream")) return "held";
  if (scope === "work") return "worker";
  if (scope !== "submit" && scope !== "read") return "operator";
  return method === "GET" ? "reader" : "caller";
}
