/** Errors in the form of another system whose API is served here. Its routes say which; an address that no route matched, and a
 *  request that was refused before it was routed, get the form of the routes below the same first part of the path. */
import type { IncomingHttpHeaders } from "node:http";
import type { Answer } from "./error-reply.ts";
import type { ServedRoute } from "./served-route.ts";

export interface FormedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object;
}

/** The answer in place of ours, with the headers of ours that still hold. */
export type ErrorForm = (answer: Answer, headers: IncomingHttpHeaders) => FormedAnswer;

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

export function formed(answer: Answer, form: ErrorForm | null, headers: IncomingHttpHeaders): FormedAnswer {
  return form === null ? answer : form(answer, headers);
}

/** `api` of `/api/jobs?a=b`. */
function firstPart(url: string): string {
  return /^\/([^/?#]*)/.exec(url)?.[1] ?? "";
}
