/** The routes of OPAL's HTTP API on this server. */

import { Readable } from "node:stream";
import { HEADER } from "../../../contract/wire.ts";
import { ConfigError, PerdureError } from "../../../core/errors.ts";
import type { Access } from "../../../server/auth.ts";
import { Download, JsonText, type RouteHandler, type ServerParts } from "../../../server/context.ts";
import type { ErrorForm, ServedRoute } from "../../../server/served-route.ts";
import type { JobRow } from "../../../store/store.ts";
import { opalResultText } from "../attempts.ts";
import { leavesFolder } from "../job.ts";
import { OpalReader } from "./opal-reader.ts";
import { anonymousCaller, checkAnonymous, type OpalOptions, opalSubmit } from "./submit.ts";
import { FORM_TYPE } from "./submit-body.ts";

// Artifact paths below `/api/artifacts/` have a job, an attempt as in OPAL's directories, and a name. This only decides
// which error a path gets that would leave the job's folder; the file store is what keeps readers inside.

interface ArtifactPath {
  readonly id: string;
  /** Null if the path is invalid. */
  readonly attempt: number | null;
  readonly name: string;
}

/** Throws 403 for a path that would leave the job's folder. Checked before the job is read, so that the reply does not
 *  reveal whether it exists. */
function artifactPath(path: string): ArtifactPath {
  if (leavesFolder(path)) throw new PerdureError("forbidden", "Access denied");
  const [id = "", attempt = "", ...name] = path.split("/");
  const number = /^attempt_([1-9]\d{0,8})$/.exec(attempt)?.[1];
  return { id, attempt: number === undefined ? null : Number(number), name: name.join("/") };
}

// OPAL's API over the engine. A submit becomes an ordinary job; replies have OPAL's formats. Jobs from elsewhere are not
// shown here. A token is required, unless `opal.anonymous` is set (`submit.ts`).

const RESULT = "result.json";
const JSON_TYPE = "application/json";

/** For `routes` of `createServer`. `host` is where it will listen: throws if routes without a token would be reachable
 *  from other machines. */
export function opalRoutes(options: OpalOptions, host: string): (parts: ServerParts) => ServedRoute[] {
  checkAnonymous(options.anonymous, host);
  return (parts) => routesOf(parts, options);
}

function routesOf(parts: ServerParts, options: OpalOptions): ServedRoute[] {
  const { engine, blobs } = parts;
  const reader = new OpalReader(engine, options.settings);
  const anonymous: Pick<Access, "anonymous"> = options.anonymous ? { anonymous: anonymousCaller } : {};

  function route(name: string, method: "GET" | "POST", path: string, handle: RouteHandler): ServedRoute {
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

  /** The engine's own file once the attempt has ended, or a generated one if the engine wrote none. */
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
      // An output may be called result.json too: its link has a marker and takes precedence.
      const output = attempt === null ? null : await blobs.get(row.id, attempt, `artifacts/${name}`);
      const file = output ?? (attempt === null || name !== RESULT ? null : await resultFile(row, attempt));
      if (file === null) throw new PerdureError("not_found", "Artifact not found");
      return new Download(file);
    }),
    route("opal.listWorkers", "GET", "/api/workers", ({ namespace }) => reader.workers(namespace)),
  ];
}

/** FastAPI's error format: clients read `detail` as text, and some compare the whole body. Our error code is in a
 *  header, where it does not disturb OPAL's clients. */
const opalError: ErrorForm = ({ status, headers, body }) => ({
  ...{ status, body: { detail: body.message } },
  headers: { ...headers, [HEADER.errorCode]: body.code },
});

/** The texts that OPAL's server accepts for true and false. */
function isTrue(given: unknown): boolean {
  const text = typeof given === "string" ? given.toLowerCase() : given;
  if (["true", "1", "yes", "on"].includes(text as string)) return true;
  if (text === undefined || ["false", "0", "no", "off", ""].includes(text as string)) return false;
  throw new ConfigError({ path: "include_attempts", given, allowed: "true or false" });
}
