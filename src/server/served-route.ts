/** A route as the server registers it: those of the contract, and the few beside them that serve another system's
 *  API, with that system's form of errors. */
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyRequest } from "fastify";
import type { Route, RouteName } from "../contract/routes.ts";
import type { Operation } from "../contract/schemas.ts";
import type { AdmissionClass } from "./admission.ts";
import type { Access } from "./auth.ts";
import type { RouteHandler } from "./context.ts";
import type { ErrorAnswer } from "./error-reply.ts";

// Errors in the form of another system whose API is served here. Its routes say which; an address that no route
// matched, and a request that was refused before it was routed, get the form of the routes below the same first part
// of the path.

interface FormedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object;
}

/** The answer in place of ours, with the headers of ours that still hold. */
export type ErrorForm = (answer: ErrorAnswer, headers: IncomingHttpHeaders) => FormedAnswer;

/** Null where the address has ours. */
export type ErrorForms = (url: string) => ErrorForm | null;

export function errorForms(routes: readonly Pick<ServedRoute, "path" | "errorForm">[]): ErrorForms {
  return bySection(routes, ({ errorForm }) => errorForm);
}

/** What the routes below the first part of an address have in common. It is for addresses that no route matched. */
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

// A route as the server registers it: those of the contract, and the few beside them that are not the API.

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
  readonly share: (request: FastifyRequest) => AdmissionClass;
  /** A search, a count or a list: few are made at a time. */
  readonly isSearch?: boolean;
  /** Of another system's API: how it reports errors. Ours, where there is none. */
  readonly errorForm?: ErrorForm;
  readonly handle: RouteHandler;
}

const JSON_ONLY = ["application/json"] as const;
/** An object without a single field; also for bodies and queries that nobody reads, so that a mistake is not passed over. */
const NOTHING = { type: "object", properties: {}, additionalProperties: false };

export function apiRoute(name: RouteName, route: Route, operation: Operation, handle: RouteHandler): ServedRoute {
  const { method, path, scope } = route;
  const { params, query = NOTHING, bodyType, status = 200 } = operation;
  const body = (operation.body ?? NOTHING) as { readonly required?: readonly string[] };
  const takesJson = method !== "GET" && bodyType === undefined;
  return {
    ...{ name, method, path, access: { scope, kin: operation.jobToken === true }, status, handle },
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
