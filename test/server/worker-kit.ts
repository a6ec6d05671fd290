/** A worker that a test plays by hand, by plain requests. */
import { HEADER } from "../../src/contract/wire.ts";
import type { ClaimedJob } from "../../src/core/worker-protocol.ts";
import type { CallOptions, Reply, TestServer } from "./kit.ts";

export interface HandWorker {
  readonly session: string;
  readonly key: string;
  readonly leaseMs: number;
  /** A call of this session, with its key. */
  call(method: string, path: string, options?: CallOptions): Promise<Reply>;
  claim(options?: Readonly<Record<string, unknown>>): Promise<ClaimedJob[]>;
  /** One job, which there must be. */
  take(): Promise<ClaimedJob>;
  report(job: ClaimedJob, outcome: object, more?: object): Promise<Record<string, unknown>>;
}

let reports = 0;

export async function openWorker(
  server: TestServer,
  request: Readonly<Record<string, unknown>> = {},
  options: CallOptions = {},
): Promise<HandWorker> {
  const body = { name: "by hand", kinds: ["k"], slots: 1_000, ...request };
  const opened = await server.call("POST", "/v1/sessions", { ...options, body });
  if (opened.status !== 201) throw new Error(opened.text);
  const { session, key, leaseMs } = opened.body;
  const at = `/v1/sessions/${session}`;

  const call: HandWorker["call"] = (method, path, given = {}) => {
    const headers = { [HEADER.sessionKey]: key, ...options.headers, ...given.headers };
    return server.call(method, `${at}${path}`, { ...options, ...given, headers });
  };
  const claim: HandWorker["claim"] = async (given = {}) => {
    const answer = await call("POST", "/claims", { body: { limit: 500, ...given } });
    if (answer.status !== 200) throw new Error(answer.text);
    return answer.body.jobs;
  };
  return {
    ...{ session, key, leaseMs, call, claim },
    async take() {
      const [job] = await claim({ limit: 1, waitMs: 5_000 });
      if (job === undefined) throw new Error("no job was due");
      return job;
    },
    async report(job, outcome, more = {}) {
      reports += 1;
      const report = {
        jobId: job.id,
        attempt: job.attempt,
        token: job.token,
        reportId: `r${reports}`,
        outcome,
        ...more,
      };
      const answer = await call("POST", "/reports", { body: { reports: [report] } });
      if (answer.status !== 200) throw new Error(answer.text);
      return answer.body.answers[0];
    },
  };
}

export const DONE = { kind: "completed", result: '"done"' };
export const BROKE = { kind: "failed", failure: { kind: "error", message: "broke" } };

/** Runs one job of kind `k` to this end, and answers its id. */
export async function runOne(server: TestServer, outcome: object, request: object = {}): Promise<string> {
  const submitted = await server.call("POST", "/v1/jobs", { body: { kind: "k", ...request } });
  if (submitted.status !== 201) throw new Error(submitted.text);
  const worker = await openWorker(server);
  await worker.report(await worker.take(), outcome);
  await worker.call("DELETE", "");
  return submitted.body.id;
}
