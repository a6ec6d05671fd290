/** Workers that hold jobs and renew their leases, like real ones but more often, while other load runs on the server:
 *  how late their renewals are, and whether a lease is lost. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Target } from "./clients.ts";

const WORKERS = 5;
const HELD = 10;
const EVERY_MS = 250;
/** Shorter than the default, so that a nearly late lease shows. */
const LEASE_MS = 5_000;

export interface Renewals {
  readonly answered: number;
  /** Answers other than 200, and requests without an answer. */
  readonly refused: number;
  /** Jobs that a worker no longer held, and reports that came too late. */
  readonly lost: number;
  quantile(q: number): number;
}

interface LeasedJob {
  readonly id: string;
  readonly attempt: number;
  readonly token: string;
}

export async function renewWhile({ host, port, token }: Target, work: Promise<unknown>): Promise<Renewals> {
  const times: number[] = [];
  let [refused, lost, isOver] = [0, 0, false];
  void work.finally(() => {
    isOver = true;
  });

  async function call(path: string, body: object, key?: string) {
    const response = await fetch(`http://${host}:${port}/v1/${path}`, {
      method: "POST",
      headers: {
        ...{ authorization: `Bearer ${token}`, "content-type": "application/json" },
        ...(key === undefined ? {} : { "perdure-session-key": key }),
      },
      body: JSON.stringify(body),
    });
    return { status: response.status, text: await response.text() };
  }

  async function must(...args: Parameters<typeof call>) {
    const { status, text } = await call(...args);
    if (status >= 300) throw new Error(`${args[0]}: ${status} ${text}`);
    return JSON.parse(text);
  }

  async function worker(n: number): Promise<void> {
    const kind = `held-${n}`;
    await must("jobs/batch", { jobs: Array.from({ length: HELD }, () => ({ kind })) });
    const request = { name: kind, kinds: [kind], slots: HELD, leaseMs: LEASE_MS };
    const { session, key } = await must("sessions", request);
    const { jobs } = (await must(`sessions/${session}/claims`, { limit: HELD, waitMs: 5_000 }, key)) as {
      readonly jobs: readonly LeasedJob[];
    };
    if (jobs.length !== HELD) throw new Error(`${jobs.length} of ${HELD} jobs were claimed`);
    const held = jobs.map(({ id, attempt }) => ({ jobId: id, attempt }));
    while (!isOver) {
      const start = performance.now();
      const reply = await call(`sessions/${session}/renew`, { held }, key).catch(() => null);
      const tookMs = performance.now() - start;
      times.push(tookMs);
      if (reply?.status !== 200) refused += 1;
      else if (JSON.parse(reply.text).lost.length > 0) break;
      await sleep(Math.max(0, EVERY_MS - tookMs));
    }
    const reports = jobs.map(({ id, attempt, token: lease }) => ({
      ...{ jobId: id, attempt, token: lease, reportId: `${id} ${attempt}` },
      outcome: { kind: "completed", result: "null" },
    }));
    const { answers } = await must(`sessions/${session}/reports`, { reports }, key);
    lost += answers.filter(({ status }: { readonly status: string }) => status !== "accepted").length;
  }

  await Promise.all(Array.from({ length: WORKERS }, (_, n) => worker(n)));
  times.sort((a, b) => a - b);
  return {
    ...{ answered: times.length - refused, refused, lost },
    quantile: (q) => times[Math.min(times.length - 1, Math.floor(times.length * q))] ?? 0,
  };
}
