/** Jobs of an engine in this process: submitting, finding and explaining them. */

import { checkEntries, type JobsApi, type SubmitManyAnswer } from "../core/api/jobs.ts";
import { PerdureError } from "../core/errors.ts";
import { checkInput, checkInputs } from "../core/input/submit-check.ts";
import { checkJobsFilter } from "../core/job/jobs-filter.ts";
import { toInfo } from "../engine/read-job.ts";
import { type SubmitItem, toItem } from "../engine/submit-item.ts";
import { EmbeddedJobHandle } from "./job-handle.ts";
import { checkClient, checkSubmitMany, refuseClient } from "./options.ts";
import { type EmbeddedParts, readRow } from "./parts.ts";

export function embeddedJobs(parts: EmbeddedParts): JobsApi {
  const { engine, namespace } = parts;
  return {
    async submit(task, ...[input, options]) {
      const checking = checkInput(task, input);
      if (checking !== null) await checking;
      const item = toItem({ task, input, ...(options === undefined ? {} : { options }) }, namespace);
      const [answer] = await engine.submit([item], checkClient(options?.client, "submit.client"));
      if (answer?.status !== "ok") throw (answer as { error: PerdureError }).error;
      return new EmbeddedJobHandle(parts, answer.id, answer.chapter, answer.created);
    },

    async submitMany(given, options = {}) {
      const client = checkSubmitMany(options);
      const entries = checkEntries(given);
      const answers: SubmitManyAnswer[] = new Array(entries.length);
      const items: SubmitItem[] = [];
      const places: number[] = [];
      const refused = await checkInputs(entries);
      entries.forEach((entry, i) => {
        const problem = refused.get(i);
        if (problem !== undefined) {
          answers[i] = { ok: false, error: problem };
          return;
        }
        try {
          refuseClient(entry);
          items.push(toItem(entry, namespace));
          places.push(i);
        } catch (error) {
          if (!(error instanceof PerdureError)) throw error;
          answers[i] = { ok: false, error };
        }
      });
      (await engine.submit(items, client)).forEach((answer, k) => {
        const i = places[k] as number;
        if (answer.status !== "ok") answers[i] = { ok: false, error: answer.error };
        else answers[i] = { ok: true, job: new EmbeddedJobHandle(parts, answer.id, answer.chapter, answer.created) };
      });
      return answers;
    },

    async job(id) {
      const { chapter } = await readRow(parts, id);
      return new EmbeddedJobHandle(parts, id, chapter, false);
    },

    async jobs(filter = {}) {
      const { jobs, next } = await engine.store.find({ namespace, ...checkJobsFilter(filter) });
      return { jobs: jobs.map(toInfo), next };
    },

    async explain(id) {
      await readRow(parts, id);
      return engine.explain(id);
    },
  };
}
