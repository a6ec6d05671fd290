/** fluster's controller calls for its clients, over the one engine: `LaunchJob`, `GetJobStatus`, `TerminateJob` and `ListJobs`
 *  of `fluster.cluster.ControllerService`, by the Connect protocol with JSON. They need a token, as everything does. Its other
 *  calls, those of its workers among them, are not implemented: its workers have no place here. */
import { ConfigError } from "../../core/errors.ts";
import { readJobId, readListJobs } from "../../dialects/fluster/controller.ts";
import { operator } from "../operator.ts";
import { type Call, JsonText, type ServerParts } from "../parts.ts";
import type { ServedRoute } from "../served-route.ts";
import { connectError, connectReply, withinDeadline } from "./connect.ts";
import { FlusterJobs } from "./jobs.ts";
import { launchJob } from "./launch.ts";

const SERVICE = "/fluster.cluster.ControllerService";

/** To be among the `routes` of `createServer`. */
export function flusterRoutes(parts: ServerParts): ServedRoute[] {
  const { engine } = parts;
  const jobs = new FlusterJobs(engine);

  const rpc = (name: string, scope: "submit" | "read", handle: (call: Call) => Promise<object>): ServedRoute => ({
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
      handle: async ({ reply }: Call) => {
        reply.header("allow", "POST");
        return new JsonText(JSON.stringify({ code: "unknown", message: "send it by POST" }), 405);
      },
    })),
  ];
}

/** For any valid token. */
function base(name: string, method: ServedRoute["method"], path: string): Omit<ServedRoute, "handle"> {
  return {
    ...{ name, method, path, access: { scope: null }, accepts: ["application/json"], schema: {}, status: 200 },
    ...{ share: () => "reader", errorForm: connectError, takesGzip: true, checksEmptyType: method === "POST" },
  };
}

function checkNamespace(wanted: string | null, namespace: string): void {
  if (wanted === null || wanted === namespace) return;
  const allowed = `${JSON.stringify(namespace)}, or none; another one is chosen by the header Perdure-Namespace`;
  throw new ConfigError({ path: "namespace", given: wanted, allowed });
}
