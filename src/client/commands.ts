/** Commands on jobs of a server. Those that are not repeatable are not sent again when a reply was lost: the second might find
 *  what the first has changed. */

import { toRedriveRequest } from "../contract/job-request.ts";
import { type CommandsApi, checkRedriveMany, type RedriveManyAnswer } from "../core/api/commands.ts";
import { toInstant } from "../core/duration.ts";
import { toWireFilter } from "../core/job/jobs-filter.ts";
import type { JobInfo } from "../core/job/views.ts";
import type { ClientCallOptions, ClientHttpLink } from "./http-call.ts";
import { callJob, type JobRoute, toJobInfo, type WireJob } from "./wire-jobs.ts";

export function clientCommands(link: ClientHttpLink): CommandsApi {
  const command = async (route: JobRoute, id: string, options?: ClientCallOptions): Promise<JobInfo> =>
    toJobInfo(await callJob<WireJob>(link, route, id, options));
  return {
    cancel: (id) => command("cancelJob", id, { repeatable: true }),
    retry: (id) => command("retryJob", id),
    async reschedule(id, runAt) {
      const body = JSON.stringify({ runAt: toInstant(runAt, "reschedule.runAt") });
      return command("rescheduleJob", id, { body });
    },
    async redrive(id, changes = {}) {
      const body = JSON.stringify(toRedriveRequest(changes, "redrive"));
      return command("redriveJob", id, { body });
    },
    async redriveMany(filter, options = {}) {
      const checked = checkRedriveMany(filter, options);
      const { order: _, limit, ...which } = checked.filter;
      const changes = toRedriveRequest(options.changes ?? {}, "redriveMany.changes");
      const body = JSON.stringify({ filter: toWireFilter(which), dryRun: checked.dryRun, limit, changes });
      const reply = await link.json<RedriveManyAnswer>("redriveJobs", { body, repeatable: checked.dryRun });
      return { ...reply, skipped: reply.skipped ?? [] }; // a server of version 0.1.0 names none
    },
    discard: (id) => command("discardJob", id),

    async setUsage(id, attempt, total) {
      const body = JSON.stringify({ attempt, usage: total });
      return callJob(link, "setUsage", id, { body, repeatable: true });
    },
  };
}
