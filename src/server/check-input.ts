/** Checks what came by the schema of its route, before the handler sees it. Schemas are compiled when a route is first
 *  called, and once: all at the start would hold it up for a quarter of a second. */
import type { FastifyRequest } from "fastify";
import { coerced } from "./coerce.ts";
import { refusalOf } from "./refusal.ts";
import type { ServedRoute } from "./served-route.ts";

/** Of ajv: bodies are taken as they are or not at all. */
export const STRICT = {
  ...{ coerceTypes: false, removeAdditional: false, useDefaults: false, allErrors: false, verbose: true },
  ownProperties: true,
} as const;

type Check = ReturnType<FastifyRequest["compileValidationSchema"]>;

/** For all servers of a process: the schemas of a route are always the same objects. */
const compiled = new WeakMap<object, Check>();

export function checkInput(
  request: FastifyRequest,
  { schema, emptyBody }: Pick<ServedRoute, "schema" | "emptyBody">,
): void {
  const { params, query, body } = schema;
  if (params !== undefined) {
    request.params = coerced(request.params, params);
    checkPart(request, params, request.params, "path");
  }
  if (query !== undefined) {
    request.query = coerced(request.query, query);
    checkPart(request, query, request.query, "query");
  }
  if (body === undefined) return;
  if (request.body === undefined && emptyBody) request.body = {};
  checkPart(request, body, request.body, "body");
}

function checkPart(request: FastifyRequest, schema: object, value: unknown, place: string): void {
  let check = compiled.get(schema);
  if (check === undefined) {
    check = request.compileValidationSchema(schema as Record<string, unknown>);
    compiled.set(schema, check);
  }
  if (!check(value)) throw refusalOf(check.errors ?? [], place);
}
