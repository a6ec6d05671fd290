/** Jobs on a server: submitting, finding and explaining them. */

import { refuseClient, toRequest } from "../contract/job-request.ts";
import { checkEntries, type JobHandle, type JobsApi } from "../core/api/jobs.ts";
import { checkOptions } from "../core/check.ts";
import { PerdureError } from "../core/errors.ts";
import type { Explanation } from "../core/explain/explain.ts";
import { checkInput } from "../core/input/submit-check.ts";
import type { ClientHttpLink } from "./http-call.ts";
import { ClientJobHandle } from "./job-handle.ts";
import { type SubmittedItem, submitMany } from "./submit-many.ts";
import type { EndWaiter } from "./wait-end.ts";
import { callJob, toJobInfo, toQuery, type WireJob } from "./wire-jobs.ts";

export function clientJobs(link: ClientHttpLink, waiter: EndWaiter): JobsApi {
  const handle = <Output>({ id, chapter, created }: Omit<SubmittedItem, "state">): JobHandle<Output> =>
    new ClientJobHandle<Output>(link, waiter, id, chapter, created);
  return {
    async submit(task, ...[input, options]) {
      const checking = checkInput(task, input);
      if (checking !== null) await checking;
      const body = toRequest({ task, input, ...(options === undefined ? {} : { options }) });
      return handle(await link.json("submitJob", { body, repeatable: options?.key !== undefined }));
    },

    async submitMany(given, options = {}) {
      checkOptions(options, ["client"], "submitMany");
      refuseClient(options.client, "submitMany.client");
      const answers = await submitMany(link, checkEntries(given));
      return answers.map((answer) =>
        answer instanceof PerdureError ? { ok: false, error: answer } : { ok: true, job: handle(answer) },
      );
    },

    async job(id) {
      const { chapter } = await callJob<WireJob>(link, "getJob", id);
      return handle({ id, chapter, created: false });
    },

    async jobs(filter = {}) {
      const query = toQuery(filter);
      if (query === null) return { jobs: [], next: null };
      const { jobs, next } = await link.json<{ jobs: WireJob[]; next: string | null }>("listJobs", { query });
      return { jobs: jobs.map(toJobInfo), next };
    },

    async explain(id) {
      return callJob<Explanation>(link, "explainJob", id);
    },
  };
}
