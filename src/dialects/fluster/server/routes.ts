/** The routes of fluster's controller service, and Connect's form of errors. */
import { ConfigError, type ErrorCode, show } from "../../../core/errors.ts";
import type { Clock } from "../../../lib/clock.ts";
import { JsonText, operator, type RouteCall, type ServerParts } from "../../../server/context.ts";
import type { ErrorForm, ServedRoute } from "../../../server/served-route.ts";
import { readJobId, readListJobs } from "../controller.ts";
import { FlusterJobs, launchJob } from "./jobs.ts";

// The Connect protocol for unary calls with JSON: codes and statuses, headers, errors. Requests that are refused before a
// handler is called, such as those without a token, get its error format too.

const STATUS = {
  ...{ invalid_argument: 400, failed_precondition: 400, unauthenticated: 401, permission_denied: 403 },
  ...{ not_found: 404, already_exists: 409, resource_exhausted: 429 },
  ...{ unknown: 500, internal: 500, unimplemented: 501, unavailable: 503, deadline_exceeded: 504 },
} as const;

type ConnectCode = keyof typeof STATUS;

/** By default caller errors are `invalid_argument`, all others `internal`. */
const CODES: Partial<Readonly<Record<ErrorCode, ConnectCode>>> = {
  ...{ unauthorized: "unauthenticated", forbidden: "permission_denied" },
  ...{ job_not_found: "not_found", not_found: "not_found", key_conflict: "already_exists" },
  ...{ wrong_state: "failed_precondition", parent_ended: "failed_precondition", budget_spent: "failed_precondition" },
  ...{
    body_too_large: "resource_exhausted",
    too_many_requests: "resource_exhausted",
    store_full: "resource_exhausted",
  },
  ...{ closed: "unavailable", overloaded: "unavailable", signing_key_missing: "unavailable" },
  ...{ store_unavailable: "unavailable", store_unknown: "unknown" },
};

const JSON_TYPE = "application/json";

/** An error in Connect's format. A body of another type gets 415 with the supported type, as the protocol requires. */
const connectError: ErrorForm = ({ status, headers, body }, asked) => {
  if (body.code === "unsupported_media_type") {
    const { "content-encoding": encoding = "identity" } = asked;
    if (!["identity", "gzip"].includes(encoding.toLowerCase())) {
      const message = `compression ${show(encoding.slice(0, 50))} is not supported: supported encodings are gzip and identity`;
      return { status: STATUS.unimplemented, headers, body: { code: "unimplemented", message } };
    }
    return {
      status,
      headers: { ...headers, "accept-post": JSON_TYPE },
      body: { code: "unknown", message: body.message },
    };
  }
  const code = CODES[body.code] ?? (status < 500 ? "invalid_argument" : "internal");
  return { status: STATUS[code], headers, body: { code, message: body.message } };
};

/** A refusal that is not a PerdureError. */
function connectReply(code: ConnectCode, message: string): JsonText {
  return new JsonText(JSON.stringify({ code, message }), STATUS[code]);
}

const VERSION_HEADER = "connect-protocol-version";
const TIMEOUT_HEADER = "connect-timeout-ms";
const LONGEST_MS = 2 ** 31 - 1; // the limit of a timer

/** Calls a handler with the caller's timeout. After it the handler continues, and its result is unknown to the caller,
 *  as after a lost reply. */
async function withinDeadline(call: RouteCall, clock: Clock, work: () => Promise<object>): Promise<JsonText> {
  const { headers } = call.request;
  checkVersion(headers[VERSION_HEADER]);
  const ms = timeoutIn(headers[TIMEOUT_HEADER]);
  if (ms === 0) return tooLate(ms); // nothing was started
  const reply = work().then((message) => new JsonText(JSON.stringify(message)));
  if (ms === null) return reply;
  let cancel = () => {};
  const over = new Promise<JsonText>((resolve) => {
    cancel = clock.after(Math.min(ms, LONGEST_MS), () => resolve(tooLate(ms)), { background: true });
  });
  reply.catch(() => {}); // avoids an unhandled rejection after the timeout
  return Promise.race([reply, over]).finally(() => cancel());
}

function tooLate(ms: number): JsonText {
  return connectReply("deadline_exceeded", `the call took longer than its ${ms} ms`);
}

function checkVersion(given: unknown): void {
  if (given === undefined || given === "1") return;
  throw new ConfigError({ path: VERSION_HEADER, given, allowed: '"1"' });
}

function timeoutIn(given: unknown): number | null {
  if (given === undefined) return null;
  if (typeof given === "string" && /^\d{1,10}$/.test(given)) return Number(given);
  throw new ConfigError({ path: TIMEOUT_HEADER, given, allowed: "a number of milliseconds, of at most 10 digits" });
}

// fluster's controller calls for its clients: `LaunchJob`, `GetJobStatus`, `TerminateJob` and `ListJobs` of
// `fluster.cluster.ControllerService`, by the Connect protocol with JSON. A token is required. Other calls, such as those
// of fluster's workers, are not implemented.

const SERVICE = "/fluster.cluster.ControllerService";

/** For `routes` of `createServer`. */
export function flusterRoutes(parts: ServerParts): ServedRoute[] {
  const { engine } = parts;
  const jobs = new FlusterJobs(engine);

  const rpc = (name: string, scope: "submit" | "read", handle: (call: RouteCall) => Promise<object>): ServedRoute => ({
    ...base(`fluster.${name}`, "POST", `${SERVICE}/${name}`),
    access: { scope },
    share: () => (scope === "read" ? "reader" : "caller"),
    isSearch: name === "ListJobs",
    handle: (call) => withinDeadline(call, engine.clock, () => handle(call)),
  });

  return [
    rpc("LaunchJob", "submit", (call) => launchJob(parts, jobs, call)),
    rpc("GetJobStatus", "read", async ({ namespace, body }) => ({
      job: await jobs.status(await jobs.get(namespace, readJobId(body))),
    })),
    rpc("TerminateJob", "submit", async ({ namespace, body, who }) => {
      await jobs.terminate(await jobs.get(namespace, readJobId(body)), operator(who));
      return {};
    }),
    rpc("ListJobs", "read", async ({ namespace, body }) => {
      checkNamespace(readListJobs(body), namespace);
      const listed = await jobs.list(namespace);
      return listed.length === 0 ? {} : { jobs: listed };
    }),
    {
      ...base("fluster.other", "POST", `${SERVICE}/*`),
      handle: async ({ params }) => connectReply("unimplemented", `${params["*"]?.slice(0, 100)} is not implemented`),
    },
    ...(["GET", "PUT", "DELETE"] as const).map((method) => ({
      ...base(`fluster.${method}`, method, `${SERVICE}/*`),
      handle: async ({ reply }: RouteCall) => {
        reply.header("allow", "POST");
        return new JsonText(JSON.stringify({ code: "unknown", message: "use POST" }), 405);
      },
    })),
  ];
}

/** Allowed with any valid token. */
function base(name: string, method: ServedRoute["method"], path: string): Omit<ServedRoute, "handle"> {
  return {
    ...{ name, method, path, access: { scope: null }, accepts: ["application/json"], schema: {}, status: 200 },
    ...{ share: () => "reader", errorForm: connectError, takesGzip: true, checksEmptyType: method === "POST" },
  };
}

function checkNamespace(wanted: string | null, namespace: string): void {
  if (wanted === null || wanted === namespace) return;
  const allowed = `${JSON.stringify(namespace)}, or none; use the header Perdure-Namespace for another`;
  throw new ConfigError({ path: "namespace", given: wanted, allowed });
}
