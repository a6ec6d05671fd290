/** Runs and playbooks on a server. A run's result, cancel, events and explanation are those of its job. */

import { toRunRedrive, toStartRequest, toWirePlaybook } from "../contract/run-request.ts";
import {
  type PlaybookInfo,
  type PlaybooksApi,
  type PlaybookVersion,
  parsePlaybookPath,
  type ValidationAnswer,
} from "../core/api/playbooks.ts";
import {
  checkGraphFormat,
  checkRunsFilter,
  checkStepsPage,
  type RunHandle,
  type RunInfo,
  type RunsApi,
  type RunsFilter,
  type StepInfo,
  type StepsPage,
} from "../core/api/runs.ts";
import { checkOptions } from "../core/check.ts";
import { errorOfRun } from "../core/run/run-end.ts";
import type { ClientHttpLink } from "./http-call.ts";
import { ClientJobHandle, waitForResult } from "./job-handle.ts";
import { pageOrAll } from "./pages.ts";
import type { EndWaiter } from "./wait-end.ts";
import { callJob } from "./wire-jobs.ts";

interface FoundRun {
  readonly id: string;
  readonly chapter: number;
  readonly created: boolean;
}

export function clientRuns(link: ClientHttpLink, waiter: EndWaiter): RunsApi & PlaybooksApi {
  const read = (id: string) => callJob<RunInfo>(link, "getRun", id);
  const steps = async (id: string, page: StepsPage = {}): Promise<StepInfo[]> => {
    const query = queryOf(checkStepsPage(page));
    return (await callJob<{ readonly steps: StepInfo[] }>(link, "listSteps", id, { query })).steps;
  };
  const redriveRun: RunsApi["redriveRun"] = (id, options = {}) =>
    callJob<RunInfo>(link, "redriveRun", id, { body: toRunRedrive(options) });

  const handle = <Output>({ id, chapter, created }: FoundRun): RunHandle<Output> => {
    const job = new ClientJobHandle<Output>(link, waiter, id, chapter, created);
    const events: RunHandle<Output>["events"] = (options) => job.events(options);
    return {
      ...{ id, chapter, created, events },
      async result(options = {}) {
        return (await waitForResult(waiter, { id, chapter }, options, async (call) => {
          const run = await callJob<RunInfo>(link, "getRun", id, call);
          if (run.chapter <= chapter && run.state === "running") return null;
          return { error: await errorOfRun(run, chapter, { events }), result: run.result };
        })) as Output;
      },
      get: () => read(id),
      steps: (page) => steps(id, page),
      async cancel() {
        await job.cancel();
        return read(id);
      },
      redrive: (options) => redriveRun(id, options),
      explain: () => job.explain(),
    };
  };

  return {
    async run(playbook, input, options = {}) {
      const body = toStartRequest(playbook, input, options);
      return handle(await link.json<FoundRun>("startRun", { body, repeatable: options.key !== undefined }));
    },
    async runHandle(id) {
      const { chapter } = await read(id);
      return handle({ id, chapter, created: false });
    },
    runs: (filter = {}) => link.json("listRuns", { query: filterQuery(checkRunsFilter(filter)) }),
    steps,
    redriveRun,
    async runGraph(id, format = "ascii") {
      const query = queryOf({ format: checkGraphFormat(format) });
      return (await callJob<{ readonly graph: string }>(link, "getRunGraph", id, { query })).graph;
    },

    validatePlaybook(playbook) {
      const body = JSON.stringify({ playbook: toWirePlaybook(playbook) });
      return link.json<ValidationAnswer>("validatePlaybook", { body, repeatable: true });
    },
    pushPlaybook(playbook, options = {}) {
      checkOptions(options, ["path"], "pushPlaybook");
      const wire = toWirePlaybook(playbook);
      // The same text again adds no version.
      return link.json<PlaybookVersion>("pushPlaybook", {
        body: JSON.stringify({ ...wire, ...options }),
        repeatable: true,
      });
    },
    playbooks(page) {
      type Reply = { readonly playbooks: PlaybookVersion[]; readonly next: string | null };
      return pageOrAll(page, async (query) => {
        const { playbooks, next } = await link.json<Reply>("listPlaybooks", { query });
        return { items: playbooks, next };
      });
    },
    playbook: (path, version) => link.json<PlaybookInfo>("getPlaybook", { query: entryQuery(path, version) }),
    async deletePlaybook(path, version) {
      const query = entryQuery(path, version);
      return (await link.json<{ readonly deleted: number }>("deletePlaybook", { query })).deleted;
    },
  };
}

function entryQuery(path: string, version: number | undefined): URLSearchParams {
  const named = parsePlaybookPath(path);
  return queryOf({ path: named.path, version: version ?? named.version ?? undefined });
}

function filterQuery({ submittedAfter, submittedBefore, ...rest }: RunsFilter): URLSearchParams {
  const instant = (value: Date | number | undefined) => (value instanceof Date ? value.getTime() : value);
  return queryOf({ ...rest, submittedAfter: instant(submittedAfter), submittedBefore: instant(submittedBefore) });
}

/** Lists are repeated names. */
function queryOf(fields: object): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  return query;
}
