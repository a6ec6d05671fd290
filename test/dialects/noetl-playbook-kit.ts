/** Runs playbooks of NoETL with real workers: requests to a server of the test, Python, commands. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import type { RunHandle, RunInfo } from "../../src/core/api/runs.ts";
import type { JobEvent } from "../../src/core/job/event.ts";
import type { NoetlEvent } from "../../src/dialects/noetl/events.ts";
import { noetlRunEvents } from "../../src/dialects/noetl/run-events.ts";
import { readParts, readRunView } from "../../src/dialects/read-view.ts";
import { exec, http, Perdure, postgres } from "../../src/index.ts";
import { openTestEngine } from "../../src/testing/index.ts";
import { all, tempFile } from "../kit.ts";

export interface NoetlEngine {
  readonly perdure: Perdure;
  /** Waits until the run has ended, and until as much time has passed as it needs. */
  readonly toEnd: (run: RunHandle<unknown>) => Promise<void>;
}

const ALLOWED = { allowAddresses: ["127.0.0.1"] };

/** Requests only. Waits between attempts take no time. */
export async function virtualEngine(): Promise<NoetlEngine> {
  const kit = await openTestEngine({ patience: "30s" });
  onTestFinished(() => kit.close());
  await kit.perdure.work([http], ALLOWED);
  return { perdure: kit.perdure, toEnd: async (run) => void (await kit.runToEnd(run)) };
}

/** Requests, commands, Python and, with connections, queries; in real time. */
export async function realEngine(connections?: Readonly<Record<string, string>>): Promise<NoetlEngine> {
  const perdure = await Perdure.open({ url: tempFile() });
  onTestFinished(() => perdure.close());
  const tasks = connections === undefined ? [exec, http] : [exec, http, postgres];
  const options = connections === undefined ? {} : { connections };
  await perdure.work(tasks, { ...ALLOWED, ...options, runtimes: ["python"], concurrency: 4 });
  return {
    perdure,
    toEnd: (run) =>
      run.result().then(
        () => {},
        () => {},
      ),
  };
}

export interface RanPlaybook {
  readonly perdure: Perdure;
  readonly run: RunHandle<unknown>;
  readonly info: RunInfo;
  /** Names and states of its steps, in the order in which they were made. */
  readonly steps: readonly string[];
}

export async function runPlaybook(
  { perdure, toEnd }: NoetlEngine,
  source: string,
  input: Readonly<Record<string, unknown>> = {},
): Promise<RanPlaybook> {
  const run = await perdure.run({ source, file: "playbook.yaml" }, input);
  await toEnd(run);
  const info = await run.get();
  const found = await run.steps();
  const steps = found.map(({ step, item, state, failure }) => {
    const why = failure === null || state === "handled" ? "" : `: ${failure.message}`;
    return `${step}${item === null ? "" : `[${item}]`} ${state}${why}`;
  });
  return { perdure, run, info, steps };
}

/** The output of a step, and its attempts. */
export async function stepOf({ run }: RanPlaybook, step: string): Promise<{ output: unknown; attempt: number | null }> {
  const [found] = await run.steps({ outputs: true, step });
  return { output: found?.output, attempt: found?.attempt ?? null };
}

/** The events of the run as NoETL shows them; `only`: of the steps of this name. */
export async function timelineOf({ perdure, run }: RanPlaybook, only?: string): Promise<readonly NoetlEvent[]> {
  const view = await readRunView(
    {
      run: () => run.get(),
      events: async () => (await all(run.events())) as JobEvent[],
      steps: (page) => perdure.steps(run.id, page),
      job: async (id) => ({ ...(await readParts(await perdure.job(id))), workerName: () => null }),
    },
    only,
  );
  return noetlRunEvents(view);
}

export interface Served {
  readonly url: string;
  readonly asked: string[];
}

/** A server that gives these answers in turn, then repeats the last one. A text or object is the body of an answer 200. */
export async function serveAnswers(...answers: readonly (number | object)[]): Promise<Served> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const answer = answers[Math.min(asked.length, answers.length) - 1];
    response.statusCode = typeof answer === "number" ? answer : 200;
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(typeof answer === "object" ? answer : { asked: asked.length }));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}
