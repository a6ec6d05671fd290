/** The description of the API, for programs (OpenAPI) and for people: one page without scripts and external resources. Both are
 *  generated from the tables that the server itself uses. Readable with any valid token; browsers may send it by Basic
 *  authentication. */

import { createHash } from "node:crypto";
import { OPERATIONS } from "../contract/operations.ts";
import { ROUTES, type Route, type RouteName } from "../contract/routes.ts";
import type { Operation } from "../contract/schemas.ts";
import { ERROR_CODES } from "../core/errors.ts";
import { HIJACKED, JsonText, type ServerParts } from "./context.ts";
import { descriptionOf, openApiDocument, openApiPath } from "./openapi.ts";
import type { ServedRoute } from "./served-route.ts";

interface DocsSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly DocsSchema[];
  readonly items?: DocsSchema;
  readonly properties?: Readonly<Record<string, DocsSchema>>;
  readonly patternProperties?: unknown;
  readonly required?: readonly string[];
  readonly description?: string;
}

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; color: #1a1a1a; background: #fff; }
h2 { margin-top: 3rem; border-bottom: 1px solid #ccc; } h3 { margin-top: 2rem; margin-bottom: 0; }
code, pre { font: 14px/1.45 ui-monospace, monospace; } pre { background: #f4f4f4; padding: .75rem; overflow-x: auto; }
p { margin: .4rem 0; } .path { font-weight: bold; } table { border-collapse: collapse; } td { padding: .15rem .8rem .15rem 0; vertical-align: top; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #161616; } pre { background: #222; } a { color: #8bf; } h2 { border-color: #444; } }
`;

/** Allows only this style sheet, by its hash, and no scripts. */
const DOCS_POLICY = `default-src 'none'; style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`;

function docsPage(version: string): string {
  const names = Object.keys(ROUTES) as RouteName[];
  const tags = [...new Set(names.map((name) => OPERATIONS[name].tag))];
  const links = tags.map((tag) => `<a href="#${escaped(slug(tag))}">${escaped(tag)}</a>`).join(" · ");
  const sections = tags.map((tag) => {
    const entries = names
      .filter((name) => OPERATIONS[name].tag === tag)
      .map((name) => entry(name, ROUTES[name], OPERATIONS[name]));
    return `<h2 id="${escaped(slug(tag))}">${escaped(tag)}</h2>\n${entries.join("\n")}`;
  });
  const errors = Object.entries(ERROR_CODES).map(
    ([code, text]) => `<tr><td><code>${escaped(code)}</code></td><td>${escaped(text)}</td></tr>`,
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Perdure HTTP API</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>${STYLE}</style></head><body>
<h1>Perdure HTTP API</h1>
<p>Version ${escaped(version)}. For programs: <a href="/openapi.json">openapi.json</a>.</p>
<p>Send <code>Authorization: Bearer TOKEN</code> with each request. After 4xx, 503 and 507 nothing was done. After any other 5xx
it may have been done, and repeating the request is safe.</p>
<p>${links} · <a href="#errors">errors</a></p>
${sections.join("\n")}
<h2 id="errors">errors</h2>
<p>An error is <code>{"code", "message", "path"}</code>; <code>path</code> is the invalid field, or null.</p>
<table>${errors.join("\n")}</table>
</body></html>
`;
}

function entry(name: RouteName, route: Route, operation: Operation): string {
  const { summary, params, query, body, bodyType, reply, replyType } = operation;
  const parts = [
    `<h3 id="${name}">${escaped(summary)}</h3>`,
    `<p class="path"><code>${route.method} ${escaped(openApiPath(route.path))}</code></p>`,
    `<p>${marked(descriptionOf(name, route))}</p>`,
    block("Path", params),
    block("Query", query),
    bodyType === undefined ? block("Body", body) : `<p>Body: <code>${bodyType}</code></p>`,
    replyType === undefined ? block("Reply", reply ?? undefined) : `<p>Reply: <code>${replyType}</code></p>`,
  ];
  return parts.filter((part) => part !== "").join("\n");
}

function block(title: string, schema: unknown): string {
  return schema === undefined ? "" : `<p>${title}:</p><pre>${escaped(shape(schema as DocsSchema, ""))}</pre>`;
}

/** A schema in the form of an example: names, types and descriptions. */
function shape(schema: DocsSchema, indent: string): string {
  const { properties, required = [], items } = schema;
  if (schema.anyOf !== undefined) return schema.anyOf.map((each) => shape(each, indent)).join(" | ");
  if (schema.enum !== undefined)
    return schema.enum.length > 12 ? "text" : schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  if (schema.type === "array") return `[${shape(items ?? {}, indent)}, …]`;
  if (schema.type !== "object") return TYPES[schema.type ?? ""] ?? "any JSON value";
  const entries = Object.entries(properties ?? {});
  if (entries.length === 0) return "{ … }";
  const inner = `${indent}  `;
  const lines = entries.map(([name, each]) => {
    const optional = required.includes(name) ? "" : "?";
    const note = each.description === undefined ? "" : `   // ${each.description}`;
    return `${inner}${name}${optional}: ${shape(each, inner)}${note}`;
  });
  return `{\n${lines.join("\n")}\n${indent}}`;
}

const TYPES: Readonly<Record<string, string>> = {
  integer: "whole number",
  number: "number",
  string: "text",
  boolean: "true | false",
  null: "null",
};

function slug(tag: string): string {
  return `tag-${tag.replaceAll(" ", "-")}`;
}

/** Text between backticks becomes code. */
function marked(text: string): string {
  return escaped(text).replaceAll(/`([^`]+)`/g, "<code>$1</code>");
}

function escaped(text: string): string {
  const names: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replaceAll(/[&<>"']/g, (c) => names[c] as string);
}

export function docsRoutes({ version }: ServerParts): ServedRoute[] {
  const shared: Omit<ServedRoute, "name" | "path" | "handle"> = {
    ...{ method: "GET", access: { scope: null, basic: true }, accepts: [], schema: {}, status: 200 },
    share: () => "reader",
  };
  // Generated on first use: most servers never need them.
  let document: string | null = null;
  let page: string | null = null;
  return [
    {
      ...{ ...shared, name: "openapi", path: "/openapi.json" },
      async handle() {
        document ??= JSON.stringify(openApiDocument(version));
        return new JsonText(document);
      },
    },
    {
      ...{ ...shared, name: "docs", path: "/docs" },
      async handle({ reply }) {
        page ??= docsPage(version);
        reply
          .headers({ "content-type": "text/html; charset=utf-8", "content-security-policy": DOCS_POLICY })
          .send(page);
        return HIJACKED;
      },
    },
  ];
}
