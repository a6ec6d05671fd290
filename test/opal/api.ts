/** A client of OPAL's API that can wait for states. It does not use the test runner, because scripts use it too. */
import { fileURLToPath } from "node:url";
import type { OpalAttempts } from "../../src/dialects/opal/attempts.ts";
import type { OpalWorker } from "../../src/dialects/opal/format.ts";
import type { OpalJob } from "../../src/dialects/opal/job.ts";

export const ENGINE = ["sh", fileURLToPath(new URL("../../examples/opal-engine.sh", import.meta.url))];

/** "Zero ABI drift": these and no others. */
export const TEN_KEYS = [
  ...["completed_at", "created_at", "error", "id", "outputs", "run_provenance", "started_at", "status"],
  ...["updated_at", "worker_id"],
];

/** Much longer than any wait here: a timeout means that something hangs. */
const DEADLINE_MS = 60_000;
const POLL_MS = 50;

type WithAttempts = OpalJob & { readonly attempts: OpalAttempts };

export abstract class OpalApi {
  /** Every job object that the API returned. */
  readonly shown: OpalJob[] = [];

  /** The URL of the server for the next request. */
  protected abstract url(): string;
  /** Null for requests without a token. */
  protected abstract token(): string | null;
  /** Details for the error of a wait that timed out. */
  protected trouble(): string {
    return "";
  }

  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const token = this.token();
    const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` };
    return fetch(`${this.url()}${path}`, { ...init, headers });
  }

  async json(path: string): Promise<unknown> {
    const reply = await this.fetch(path);
    if (reply.status !== 200) throw new Error(`GET ${path}: ${reply.status} ${await reply.text()}`);
    return reply.json();
  }

  /** Submits a form, as OPAL's verification script does. */
  async submit(prompt: string): Promise<string> {
    const body = new FormData();
    body.append("prompt", prompt);
    const reply = await this.fetch("/api/jobs", { method: "POST", body });
    if (reply.status !== 201) throw new Error(`${reply.status} ${await reply.text()}`);
    return ((await reply.json()) as { id: string }).id;
  }

  async job(id: string): Promise<OpalJob> {
    const job = (await this.json(`/api/jobs/${id}`)) as OpalJob;
    this.shown.push(job);
    return job;
  }

  async attempts(id: string): Promise<OpalAttempts> {
    const { attempts } = (await this.json(`/api/jobs/${id}?include_attempts=true`)) as WithAttempts;
    return attempts;
  }

  async workers(): Promise<OpalWorker[]> {
    return (await this.json("/api/workers")) as OpalWorker[];
  }

  /** Polls the job until it is in this state. */
  async until(id: string, status: OpalJob["status"], attempt: number): Promise<OpalJob> {
    return this.waitFor(`${status} in attempt ${attempt}`, async () => {
      const job = await this.job(id);
      return job.status === status && job.run_provenance?.attempt === attempt ? job : null;
    });
  }

  /** `kill -9` of the worker that holds the job. */
  async killHolder({ worker_id }: OpalJob): Promise<number> {
    const holder = (await this.workers()).find(({ id, status }) => id === worker_id && status === "online");
    if (holder === undefined) throw new Error(`no worker is named ${worker_id}`);
    process.kill(holder.pid, "SIGKILL");
    return holder.pid;
  }

  /** Polls until the answer is not null, and returns it. */
  async waitFor<T>(what: string, ask: () => T | null | Promise<T | null>): Promise<T> {
    const start = performance.now();
    for (;;) {
      const found = await ask();
      if (found !== null) return found;
      if (performance.now() - start > DEADLINE_MS) {
        throw new Error(`waited in vain: ${what}\n${JSON.stringify(this.shown.at(-1))}\n${this.trouble()}`);
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }
}
