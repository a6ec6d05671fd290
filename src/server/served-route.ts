/** A route as the server registers it: those of the contract, and a few others, such as the API of another system with that
 *  system's error format. */
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyRequest } from "fastify";
import type { Route, RouteName } from "../contract/routes.ts";
import type { Operation } from "../contract/schemas.ts";
import type { AdmissionClass } from "./admission.ts";
import type { Access } from "./auth.ts";
import type { RouteHandler } from "./context.ts";
import type { ErrorAnswer } from "./error-reply.ts";

interface FormedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object;
}

/** Converts an error to the format of another system; keeps the headers that still apply. */
export type ErrorForm = (answer: ErrorAnswer, headers: IncomingHttpHeaders) => FormedAnswer;

/** The error format of an address; null for ours. A request that matched no route, or was refused before routing, gets the format
 *  of the routes with the same first path segment. */
export type ErrorForms = (url: string) => ErrorForm | null;

export function errorForms(routes: readonly Pick<ServedRoute, "path" | "errorForm">[]): ErrorForms {
  return bySection(routes, ({ errorForm }) => errorForm);
}

/** Looks up a value by the first path segment, for addresses that match no route. */
export function bySection<Route extends Pick<ServedRoute, "path">, Value>(
  routes: readonly Route[],
  pick: (route: Route) => Value | undefined,
): (url: string) => Value | null {
  const values = new Map<string, Value>();
  for (const route of routes) {
    const value = pick(route);
    if (value !== undefined) values.set(firstPart(route.path), value);
  }
  return (url) => values.get(firstPart(url)) ?? null;
}

export function formed(answer: ErrorAnswer, form: ErrorForm | null, headers: IncomingHttpHeaders): FormedAnswer {
  return form === null ? answer : form(answer, headers);
}

/** `api` of `/api/jobs?a=b`. */
function firstPart(url: string): string {
  return /^\/([^/?#]*)/.exec(url)?.[1] ?? "";
}

export interface ServedRoute {
  /** For logs. */
  readonly name: string;
  readonly method: Route["method"];
  readonly path: string;
  readonly access: Access;
  /** Content types of bodies. JSON is parsed; any other is passed to the handler as a stream. */
  readonly accepts: readonly string[];
  /** Refuse other content types even if the body is empty: an empty message in another encoding. */
  readonly checksEmptyType?: boolean;
  /** Bodies may be compressed with gzip. */
  readonly takesGzip?: boolean;
  readonly schema: { readonly params?: object; readonly query?: object; readonly body?: object };
  /** A missing body is an empty object: it has no required fields. */
  readonly emptyBody?: boolean;
  /** The status of success. */
  readonly status: number;
  readonly share: (request: FastifyRequest) => AdmissionClass;
  /** A search, a count or a list, of which only a few run at a time. */
  readonly isSearch?: boolean;
  /** The error format of another system's API; default: ours. */
  readonly errorForm?: ErrorForm;
  readonly handle: RouteHandler;
}

const JSON_ONLY = ["application/json"] as const;
/** An object without fields, also for bodies and queries that are not used, so that mistakes are reported. */
const NOTHING = { type: "object", properties: {}, additionalProperties: false };

export function apiRoute(name: RouteName, route: Route, operation: Operation, handle: RouteHandler): ServedRoute {
  const { method, path, scope } = route;
  const { params, query = NOTHING, bodyType, status = 200 } = operation;
  const body = (operation.body ?? NOTHING) as { readonly required?: readonly string[] };
  const takesJson = method !== "GET" && bodyType === undefined;
  return {
    ...{ name, method, path, access: { scope, jobToken: operation.jobToken === true }, status, handle },
    accepts: bodyType === undefined ? JSON_ONLY : [bodyType],
    schema: { query, ...(params === undefined ? {} : { params }), ...(takesJson ? { body } : {}) },
    emptyBody: (body.required ?? []).length === 0,
    share: (request) => shareOf(route, operation, request),
    isSearch: operation.isSearch === true,
  };
}

function shareOf({ scope, method }: Route, operation: Operation, request: FastifyRequest): AdmissionClass {
  if (operation.isHeld === true) return scope === "work" ? "waiting" : "held";
  if (operation.isFeed === true && String(request.headers.accept ?? "").includes("text/event-stream")) return "held";
  if (scope === "work") return "worker";
  if (scope !== "submit" && scope !== "read") return "operator";
  return method === "GET" ? "reader" : "caller";
}
