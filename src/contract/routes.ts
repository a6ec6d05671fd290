/** Every route of the API: its method, its path and who may call it. One table for server, client and worker. It holds no
 *  schemas, so that a client in a browser does not carry them; those are in `operations.ts`.
 *
 *  A route that is not in this table is not served. `scope: null`: any valid token is enough. */
import type { Scope } from "../core/access.ts";

export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Parameters as `:name`; a `*` at the end takes the rest of the path. */
  readonly path: string;
  readonly scope: Scope | null;
}

function route(method: Route["method"], path: string, scope: Scope | null): Route {
  return { method, path, scope };
}

export const ROUTES = {
  submitJob: route("POST", "/v1/jobs", "submit"),
  submitJobs: route("POST", "/v1/jobs/batch", "submit"),
  createUpload: route("POST", "/v1/uploads", "submit"),
  writeUpload: route("PUT", "/v1/uploads/:id", "submit"),
  getUpload: route("GET", "/v1/uploads/:id", "submit"),
  listJobs: route("GET", "/v1/jobs", "read"),
  waitJobs: route("POST", "/v1/jobs/wait", "read"),
  redriveJobs: route("POST", "/v1/jobs/redrive", "submit"),
  getJob: route("GET", "/v1/jobs/:id", "read"),
  cancelJob: route("POST", "/v1/jobs/:id/cancel", "submit"),
  retryJob: route("POST", "/v1/jobs/:id/retry", "submit"),
  rescheduleJob: route("POST", "/v1/jobs/:id/reschedule", "submit"),
  redriveJob: route("POST", "/v1/jobs/:id/redrive", "submit"),
  discardJob: route("POST", "/v1/jobs/:id/discard", "submit"),
  explainJob: route("GET", "/v1/jobs/:id/explain", "read"),
  listJobEvents: route("GET", "/v1/jobs/:id/events", "read"),
  listAttempts: route("GET", "/v1/jobs/:id/attempts", "read"),
  getLogs: route("GET", "/v1/jobs/:id/logs", "read"),
  setUsage: route("PUT", "/v1/jobs/:id/usage", "work"),
  listOutputs: route("GET", "/v1/jobs/:id/outputs", "read"),
  getOutput: route("GET", "/v1/jobs/:id/attempts/:attempt/files/*", "read"),

  startRun: route("POST", "/v1/runs", "submit"),
  listRuns: route("GET", "/v1/runs", "read"),
  getRun: route("GET", "/v1/runs/:id", "read"),
  listSteps: route("GET", "/v1/runs/:id/steps", "read"),
  getRunGraph: route("GET", "/v1/runs/:id/graph", "read"),
  redriveRun: route("POST", "/v1/runs/:id/redrive", "submit"),

  listPlaybooks: route("GET", "/v1/playbooks", "read"),
  pushPlaybook: route("POST", "/v1/playbooks", "admin"),
  getPlaybook: route("GET", "/v1/playbooks/entry", "read"),
  deletePlaybook: route("DELETE", "/v1/playbooks/entry", "admin"),
  validatePlaybook: route("POST", "/v1/playbooks/validate", "read"),
  graphPlaybook: route("POST", "/v1/playbooks/graph", "read"),
  playbookSchema: route("GET", "/v1/schemas/playbook.json", null),

  listEvents: route("GET", "/v1/events", "read"),

  listQueues: route("GET", "/v1/queues", "read"),
  pauseQueue: route("POST", "/v1/queues/:queue/pause", "admin"),
  resumeQueue: route("POST", "/v1/queues/:queue/resume", "admin"),

  openSession: route("POST", "/v1/sessions", "work"),
  closeSession: route("DELETE", "/v1/sessions/:session", "work"),
  renewSession: route("POST", "/v1/sessions/:session/renew", "work"),
  claimJobs: route("POST", "/v1/sessions/:session/claims", "work"),
  reportAttempts: route("POST", "/v1/sessions/:session/reports", "work"),
  waitForNotice: route("POST", "/v1/sessions/:session/notices", "work"),
  writeOutput: route("PUT", "/v1/sessions/:session/jobs/:id/attempts/:attempt/files/*", "work"),
  removeOutput: route("DELETE", "/v1/sessions/:session/jobs/:id/attempts/:attempt/files/*", "work"),
  submitChild: route("POST", "/v1/sessions/:session/jobs/:id/children", "work"),
  lookChildren: route("POST", "/v1/sessions/:session/jobs/:id/children/look", "work"),
  listEarlierOutputs: route("GET", "/v1/sessions/:session/jobs/:id/outputs", "work"),
  readEarlierOutput: route("GET", "/v1/sessions/:session/jobs/:id/attempts/:attempt/files/*", "work"),

  getAsset: route("GET", "/v1/assets/:hash", "work"),

  listWorkers: route("GET", "/v1/workers", "read"),
  drainWorker: route("POST", "/v1/workers/:session/drain", "admin"),

  createToken: route("POST", "/v1/tokens", "admin"),
  listTokens: route("GET", "/v1/tokens", "admin"),
  revokeToken: route("DELETE", "/v1/tokens/:id", "admin"),

  getDialects: route("GET", "/v1/dialects", null),

  prune: route("POST", "/v1/prune", "admin"),
  getSettings: route("GET", "/v1/settings", "admin"),
  getStatus: route("GET", "/v1/status", "read"),
  getVersion: route("GET", "/v1/version", null),
  getIdentity: route("GET", "/v1/identity", null),
} as const satisfies Readonly<Record<string, Route>>;

export type RouteName = keyof typeof ROUTES;

/** The path of a route with its parameters filled in, each encoded; `rest` fills the `*` and keeps its slashes. */
export function pathOf(name: RouteName, params: Readonly<Record<string, string | number>> = {}, rest = ""): string {
  const { path } = ROUTES[name];
  const filled = path.replaceAll(/:([a-zA-Z]+)/g, (_, param: string) => {
    const value = params[param];
    if (value === undefined) throw new Error(`route ${name} needs ${param}`);
    return encodeURIComponent(String(value));
  });
  return filled.replace("*", () => rest.split("/").map(encodeURIComponent).join("/"));
}
