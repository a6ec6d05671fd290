/** Errors in the form of another system whose API is served here. Its routes say which; an address that no route matched, and a
 *  request that was refused before it was routed, get the form of the routes below the same first part of the path. */
import type { ErrorReply } from "../contract/error-status.ts";
import { HEADER } from "../contract/wire.ts";
import type { ServedRoute } from "./served-route.ts";

/** The body in place of ours. Our code goes into a header, where no client of that system is disturbed by it. */
export type ErrorForm = (error: ErrorReply) => object;

/** Null where the address has ours. */
export type ErrorForms = (url: string) => ErrorForm | null;

export function errorForms(routes: readonly Pick<ServedRoute, "path" | "errorForm">[]): ErrorForms {
  const forms = new Map<string, ErrorForm>();
  for (const { path, errorForm } of routes) if (errorForm !== undefined) forms.set(firstPart(path), errorForm);
  return (url) => forms.get(firstPart(url)) ?? null;
}

export interface FormedError {
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

export function formed(error: ErrorReply, form: ErrorForm | null): FormedError {
  if (form === null) return { headers: {}, text: JSON.stringify(error) };
  return { headers: { [HEADER.errorCode]: error.code }, text: JSON.stringify(form(error)) };
}

/** `api` of `/api/jobs?a=b`. */
function firstPart(url: string): string {
  return /^\/([^/?#]*)/.exec(url)?.[1] ?? "";
}
