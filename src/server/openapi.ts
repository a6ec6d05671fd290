/** The OpenAPI document, generated from the tables that the server itself uses. */

import { OPERATIONS } from "../contract/operations.ts";
import { ROUTES, type Route, type RouteName } from "../contract/routes.ts";
import { ErrorSchema, type Operation } from "../contract/schemas.ts";
import { API_VERSION, HEADER } from "../contract/wire.ts";
import { EVENT_VIEW_NAMES, JOB_VIEW_NAMES } from "../dialects/registry.ts";

type Json = Readonly<Record<string, unknown>>;

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, Json>>;
  readonly required?: readonly string[];
}

const JSON_TYPE = "application/json";
const REST = "The remaining path; its slashes are not escaped.";

export function openApiDocument(version: string): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const name of Object.keys(ROUTES) as RouteName[]) {
    const route: Route = ROUTES[name];
    const path = openApiPath(route.path);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(name, route, OPERATIONS[name]) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Perdure",
      version,
      description:
        `The HTTP API of Perdure, version ${API_VERSION}. After 4xx, 503 and 507 nothing was done. After any other 5xx it may ` +
        "have been done, and repeating it is safe (a submit with its key, a claim with its id, a report with its id).",
    },
    servers: [{ url: "/" }],
    security: [{ token: [] }],
    tags: [...new Set(Object.values(OPERATIONS).map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer", description: "A token of this server." } },
      schemas: { Error: ErrorSchema },
      parameters: { namespace: header(HEADER.namespace, "For tokens of all namespaces; default: `default`.", false) },
      responses: {
        error: {
          description: "An error",
          content: { [JSON_TYPE]: { schema: { $ref: "#/components/schemas/Error" } } },
        },
      },
    },
  };
}

/** `/v1/jobs/:id/files/*` becomes `/v1/jobs/{id}/files/{path}`. */
export function openApiPath(path: string): string {
  return path.replaceAll(/:([a-zA-Z]+)/g, "{$1}").replace("*", "{path}");
}

/** The views that an operation supports. */
const VIEWS: Readonly<Partial<Record<RouteName, readonly string[]>>> = {
  getJob: JOB_VIEW_NAMES,
  listJobEvents: EVENT_VIEW_NAMES,
};

/** The description of an operation, with its views and the required scope. */
export function descriptionOf(name: RouteName, route: Route): string {
  const { description }: Operation = OPERATIONS[name];
  const views = VIEWS[name];
  const viewsText = views === undefined ? undefined : `Views: ${views.join(", ")}.`;
  return [description, viewsText, scopeText(route)].filter((text) => text !== undefined).join(" ");
}

function scopeText({ scope }: Route): string {
  return scope === null
    ? "Requires any valid token."
    : `Requires the scope \`${scope}\`${scope === "admin" ? "" : ", or `admin`"}.`;
}

function operationOf(name: RouteName, route: Route, operation: Operation): Json {
  const { tag, summary, body, bodyType, reply, replyType, status = 200 } = operation;
  const success =
    reply === null
      ? { description: "Done" }
      : { description: "Success", content: { [replyType ?? JSON_TYPE]: { schema: reply } } };
  return {
    operationId: name,
    tags: [tag],
    summary,
    description: descriptionOf(name, route),
    parameters: parametersOf(operation),
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: { [bodyType ?? JSON_TYPE]: { schema: body } } } }),
    responses: { [String(status)]: success, default: { $ref: "#/components/responses/error" } },
  };
}

function parametersOf({ params, query, session = false, lease = false, holder = false }: Operation): Json[] {
  return [
    ...fieldsOf(params).map(({ name, schema }) =>
      name === "*"
        ? { name: "path", in: "path", required: true, description: REST, schema }
        : { name, in: "path", required: true, schema },
    ),
    ...fieldsOf(query).map(({ name, schema, required }) => ({ name, in: "query", required, schema })),
    ...(session || holder ? [header(HEADER.sessionKey, "The key returned when the session was opened.", session)] : []),
    ...(lease || holder ? [header(HEADER.lease, "The lease token of the claim.", lease)] : []),
    { $ref: "#/components/parameters/namespace" },
  ];
}

function fieldsOf(schema: unknown): { name: string; schema: Json; required: boolean }[] {
  const { properties = {}, required = [] } = (schema ?? {}) as ObjectSchema;
  return Object.entries(properties).map(([name, each]) => ({ name, schema: each, required: required.includes(name) }));
}

function header(name: string, description: string, required: boolean): Json {
  return { name, in: "header", required, description, schema: { type: "string" } };
}
