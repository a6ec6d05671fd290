/** OPAL's door: the addresses that its clients know, over the one engine. What goes in becomes a job like any other; what
 *  comes out has OPAL's shapes and nothing more. Jobs that came in by other doors are not shown here. It needs the token
 *  like everything else, unless `opal.anonymous` is set (see `anonymous.ts`). */
import { Readable } from "node:stream";
import { HEADER } from "../../contract/wire.ts";
import { ConfigError, PerdureError } from "../../core/errors.ts";
import { opalResultText } from "../../dialects/opal/result.ts";
import type { JobRow } from "../../store/store.ts";
import type { Access } from "../auth.ts";
import type { ErrorForm } from "../error-form.ts";
import { Download, type Handler, JsonText, type ServerParts } from "../parts.ts";
import type { ServedRoute } from "../served-route.ts";
import { anonymousCaller, checkAnonymous } from "./anonymous.ts";
import { artifactPath } from "./artifact.ts";
import { FORM_TYPE } from "./form.ts";
import type { OpalOptions } from "./options.ts";
import { OpalReader } from "./read.ts";
import { opalSubmit } from "./submit.ts";

const RESULT = "result.json";
const JSON_TYPE = "application/json";

/** To be given to `createServer` as its `routes`. `host` is where that will listen: it is refused here, before it does, if
 *  a door without a token were open to others. */
export function opalDoor(options: OpalOptions, host: string): (parts: ServerParts) => ServedRoute[] {
  checkAnonymous(options.anonymous, host);
  return (parts) => opalRoutes(parts, options);
}

function opalRoutes(parts: ServerParts, options: OpalOptions): ServedRoute[] {
  const { engine, blobs } = parts;
  const reader = new OpalReader(engine, options.settings);
  const anonymous: Pick<Access, "anonymous"> = options.anonymous ? { anonymous: anonymousCaller } : {};

  function route(name: string, method: "GET" | "POST", path: string, handle: Handler): ServedRoute {
    const isPost = method === "POST";
    return {
      ...{ name, method, path, handle, schema: {}, status: isPost ? 201 : 200 },
      ...{
        share: () => (isPost ? "caller" : "reader"),
        isSearch: name === "opal.listJobs" || name === "opal.listWorkers",
      },
      access: { scope: isPost ? "submit" : "read", ...anonymous },
      accepts: isPost ? [JSON_TYPE, FORM_TYPE] : [JSON_TYPE],
      errorForm: opalError,
    };
  }

  /** The engine's own once the attempt has ended, and a made one where it wrote none. */
  async function resultFile(row: JobRow, attempt: number): Promise<Download["source"] | null> {
    const result = await reader.result(row, attempt);
    if (result === null) return null;
    const own = result.status === "running" ? null : await blobs.get(row.id, attempt, RESULT);
    return own ?? Readable.from([Buffer.from(opalResultText(result))]);
  }

  return [
    route("opal.listJobs", "GET", "/api/jobs", async ({ namespace, query }) => {
      const jobs = await reader.list(namespace, isTrue(query.include_attempts));
      return new JsonText(JSON.stringify(Object.fromEntries(jobs)));
    }),
    route("opal.submitJob", "POST", "/api/jobs", opalSubmit(parts, options)),
    route("opal.getJob", "GET", "/api/jobs/:id", ({ namespace, params, query }) =>
      reader.job(namespace, params.id as string, isTrue(query.include_attempts)),
    ),
    route("opal.getArtifact", "GET", "/api/artifacts/*", async ({ namespace, params }) => {
      const { id, attempt, name } = artifactPath(params["*"] as string);
      const row = await reader.row(namespace, id);
      // An output may be called result.json, too: its link says so, and goes first.
      const output = attempt === null ? null : await blobs.get(row.id, attempt, `artifacts/${name}`);
      const file = output ?? (attempt === null || name !== RESULT ? null : await resultFile(row, attempt));
      if (file === null) throw new PerdureError("not_found", "Artifact not found");
      return new Download(file);
    }),
    route("opal.listWorkers", "GET", "/api/workers", ({ namespace }) => reader.workers(namespace)),
  ];
}

/** FastAPI's form of an error, and nothing else: clients read `detail` as text, and some compare the whole body. Our code goes
 *  into a header, where no client of OPAL's is disturbed by it. */
const opalError: ErrorForm = ({ status, headers, body }) => ({
  ...{ status, body: { detail: body.message } },
  headers: { ...headers, [HEADER.errorCode]: body.code },
});

/** The words that OPAL's server takes for yes and no. */
function isTrue(given: unknown): boolean {
  const text = typeof given === "string" ? given.toLowerCase() : given;
  if (["true", "1", "yes", "on"].includes(text as string)) return true;
  if (text === undefined || ["false", "0", "no", "off", ""].includes(text as string)) return false;
  throw new ConfigError({ path: "include_attempts", given, allowed: "true or false" });
}
