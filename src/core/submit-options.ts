/** What a submit may say beside the input. Types only; `engine/submit-request.ts` checks them. */
import type { Duration } from "./duration.ts";
import type { PolicyInput } from "./policy.ts";
import type { PolicySource } from "./policy-sources.ts";
import type { ResourcesInput } from "./resources.ts";
import type { AnyTask } from "./task.ts";

/** A client of the `pg` package, or what looks like one, with a transaction begun.
 *  @example
 *  const client: TransactionClient = await pool.connect();
 *  await perdure.submit(resize, { url }, { client }); // stored when your transaction commits */
export interface TransactionClient {
  query(query: { text: string; values: unknown[]; rowMode: "array" }): Promise<{ rows: unknown[][] }>;
}

/** What a submit may say beside the input. It takes precedence over the task's own options.
 *  @example
 *  const options: SubmitOptions = { key: "resize-a", delay: "10m", retry: 5, tags: ["images"] };
 *  await perdure.submit(resize, { url }, options); */
export interface SubmitOptions {
  /** Shown to people, and found by `jobs({ name })`. Default: its action or manifest, else its kind and a short argument. */
  name?: string;
  /** At most one job per key: a second submit with the same body finds the first. */
  key?: string;
  queue?: string;
  /** 0 (first) to 9; default 5. */
  priority?: number;
  delay?: Duration;
  runAt?: Date | number;
  tags?: readonly string[];
  timeout?: Duration;
  /** How long it may be due without being started. */
  expireIn?: Duration;
  /** No run may start after this instant. */
  deadline?: Date | number;
  retry?: PolicyInput;
  /** Labels a worker must have. */
  labels?: Readonly<Record<string, string>>;
  /** What of a worker's cpu and memory it takes while it runs: it is started only where so much is left. */
  resources?: ResourcesInput;
  /** Texts to be kept with it and shown; the engine never reads them. */
  annotations?: Readonly<Record<string, string>>;
  /** For who submits in the name of another document: where values of the policy, `timeout` and `expireIn` came from, by their
   *  names. Shown by `explain`. */
  sources?: Readonly<Record<string, Exclude<PolicySource, "submit">>>;
  /** The job whose child it is, which must not have ended. Cancelled with it. */
  parent?: string;
  /** The id of what `upload` stored, which this job takes as its own: its command reads it as standard input. The input must
   *  have `stdinFile`. */
  upload?: string;
  /** PostgreSQL: a client of the `pg` package inside a transaction of yours on the same database. The job is stored with
   *  that transaction: there when it commits, never there if it is rolled back. A server cannot be given one. */
  client?: TransactionClient;
}

/** One of the jobs that `submitMany` stores.
 *  @example
 *  const entries: SubmitEntry[] = urls.map((url) => ({ task: resize, input: { url } }));
 *  await perdure.submitMany(entries); */
export interface SubmitEntry {
  readonly task: AnyTask | string;
  readonly input?: unknown;
  readonly options?: Omit<SubmitOptions, "client">;
}
