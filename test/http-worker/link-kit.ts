/** A link on a server that a test plays itself. */
import { onTestFinished } from "vitest";
import type { ClaimedJob, Report } from "../../src/core/worker-protocol.ts";
import { withFields } from "../../src/lib/log.ts";
import { type HttpLink, type HttpLinkOptions, httpLink } from "../../src/worker/http-link/http-link.ts";
import { type Answer, type Asked, type FakeServer, fakeServer, type QuickClock, quickClock } from "./fake-server.ts";

export interface LinkBench {
  readonly server: FakeServer;
  readonly link: HttpLink;
  readonly clock: QuickClock;
  readonly logged: string[];
  readonly session: string;
}

export const REQUEST = {
  ...{ namespace: "default", name: "w", host: "h", pid: 1, process: null, kinds: ["k"], queues: null, labels: {} },
  slots: 10,
};

export const OPENED = { json: { session: "ses_1", key: "key_1", leaseMs: 15_000, claimsAtOnce: 2 }, status: 201 };

export function newLink(url: string, options: Partial<HttpLinkOptions> = {}) {
  const clock = quickClock();
  const logged: string[] = [];
  const link = httpLink({
    ...{ url, token: () => "secret", namespace: null, clock, random: () => 0.5 },
    log: (level, message, fields) => void logged.push(`${level}: ${withFields(message, fields)}`),
    ...options,
  });
  onTestFinished(() => link.close());
  return { link, clock, logged };
}

/** `answer` is for all but the opening of the session. */
export async function openLink(
  answer: (asked: Asked) => Answer | Promise<Answer>,
  options: Partial<HttpLinkOptions> = {},
): Promise<LinkBench> {
  let opened = 0;
  const server = await fakeServer((asked) => {
    if (asked.path !== "/v1/sessions") return answer(asked);
    opened += 1;
    return { ...OPENED, json: { ...OPENED.json, session: `ses_${opened}` } };
  });
  const made = newLink(server.url, options);
  const { session } = await made.link.openSession(REQUEST);
  server.asked.length = 0;
  return { server, session, ...made };
}

export function job(n: number): ClaimedJob {
  return {
    ...{ id: `job_${n}`, namespace: "default", queue: "default", kind: "k", attempt: 1, chapter: 1, token: `t${n}` },
    ...{ payload: "null", timeoutMs: null, failures: 0, maxAttempts: 1, tags: [], previous: null },
  };
}

export function done(n: number, parts: Partial<Report> = {}): Report {
  return {
    ...{ jobId: `job_${n}`, attempt: 1, from: { kind: "worker", token: `t${n}`, reportId: `r${n}` } },
    ...{ outcome: { kind: "completed", result: String(n) }, usage: null, log: null },
    ...parts,
  } as Report;
}

export const ACCEPTED = { status: "accepted", repeated: false, state: "succeeded", reason: null, runAt: null };
export const never = (): AbortSignal => new AbortController().signal;
export const refusal = (status: number, code: string, headers: Record<string, string> = {}): Answer => ({
  ...{ status, headers, json: { code, message: `the server says ${code}`, path: null } },
});
