/** The interface of a dialect: it reads the documents of one source system into jobs, and shows a job in that system's
 *  format. Pure: the caller reads files and stores jobs. Nothing outside this folder knows these formats. */

import type { RunInfo, StepInfo } from "../core/api/runs.ts";
import type { RetryRecord } from "../core/explain/decision-text.ts";
import type { JobEvent } from "../core/job/event.ts";
import type { AttemptRow, JobInfo } from "../core/job/views.ts";
import type { SubmitEntry } from "../core/task/task.ts";
import type { DialectSettings } from "./settings.ts";

/** The names of all dialects.
 *  @example
 *  console.log(`one of ${DIALECT_NAMES.join(", ")}`); */
export const DIALECT_NAMES = ["opal", "fluster", "noetl", "attune", "agent-task"] as const;
/** The name of a dialect.
 *  @example
 *  const name: DialectName = "fluster"; */
export type DialectName = (typeof DIALECT_NAMES)[number];

/** What a reader may use besides the document.
 *  @example
 *  const context: ReadContext = {
 *    ...{ settings: DIALECT_DEFAULTS, parameters: {}, documents: [], file: "job.yaml" },
 *    ...{ yaml: () => null, bytes: () => null, randomBytes: (count: number) => new Uint8Array(count) },
 *  }; */
export interface ReadContext {
  readonly settings: DialectSettings;
  /** Parameters given with `-p`, for dialects whose files take some. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Other documents of the same command, such as the roles of an agent. */
  readonly documents: readonly unknown[];
  /** A YAML file, by its path from the document's folder; null if it does not exist. */
  yaml(path: string): unknown | null;
  /** The bytes of a file, by its path from the document's folder; null if it does not exist. */
  bytes(path: string): Uint8Array | null;
  /** The name of the file, as given; used in messages and for names derived from it. */
  readonly file: string;
  /** For dialects that need an id before the job is stored. */
  randomBytes(count: number): Uint8Array;
}

/** One job of a document. The kind is a name: a file cannot hold a function.
 *  @example
 *  const entry: ReadEntry = { task: "exec", input: { argv: ["true"] } }; */
export type ReadEntry = SubmitEntry & { readonly task: string };

/** The jobs of a document, and notes about what it asks for and Perdure does not support.
 *  @example
 *  const { jobs, notes }: Reading = dialectOf("fluster").read(document, context); */
export interface Reading {
  readonly jobs: readonly ReadEntry[];
  /** What the document asks for and Perdure does not support, one sentence each. Mistakes are thrown instead. */
  readonly notes: readonly string[];
}

/** Everything a view may show of a job.
 *  @example
 *  const parts: ViewParts = { job: await job.get(), attempts: await job.attempts(), events, workerName: () => null }; */
export interface ViewParts {
  readonly job: JobInfo;
  /** Ended attempts, oldest first. */
  readonly attempts: readonly AttemptRow[];
  /** All events of this job, in order. */
  readonly events: readonly JobEvent[];
  /** The name of a worker by its session, if known. */
  readonly workerName: (session: string) => string | null;
  /** Children, for views that show them; if absent, the view has none. */
  readonly children?: ViewChildren;
  /** Of a job that is a run: the run with its steps. */
  readonly run?: RunView;
  /** The time of the request. Without it the time of the last event is used, and some waits then look longer than they
   *  are. */
  readonly now?: number;
}

/** A run with its steps, for views of its events.
 *  @example
 *  const shown = (view: RunView) => view.steps.map(({ step }) => step.step); */
export interface RunView {
  readonly run: RunInfo;
  /** Of the run's own job. */
  readonly events: readonly JobEvent[];
  readonly steps: readonly RunViewStep[];
  /** Only the events of the steps of this name. */
  readonly only?: string;
}

/** A step of a run, with its job if it has one.
 *  @example
 *  const jobs = (view: RunView) => view.steps.filter(({ parts }: RunViewStep) => parts !== null); */
export interface RunViewStep {
  readonly step: StepInfo;
  readonly parts: ViewParts | null;
}

/** Children of a job, as many as a view shows.
 *  @example
 *  const { jobs: children, more } = parts.children ?? ({ jobs: [], more: false } satisfies ViewChildren); */
export interface ViewChildren {
  readonly jobs: readonly JobInfo[];
  /** There are more children than these. */
  readonly more: boolean;
}

/** Events in another system's format as a table: a heading per column, and the cells of each row.
 *  @example
 *  const { heads, rows }: EventTable = eventTable("noetl", "view")(parts);
 *  console.log(heads.join("  "), rows.length); */
export interface EventTable {
  readonly heads: readonly string[];
  /** The last cell may be of any length. */
  readonly rows: readonly (readonly string[])[];
}

/** The fields that documents of a dialect are recognised by.
 *  @example
 *  const { text }: DocumentSigns = dialectOf("opal").signs;
 *  console.log(`an OPAL job has ${text}`); */
export interface DocumentSigns {
  /** For people: what a document must have, as in "apiVersion and kind: AgentTask". */
  readonly text: string;
  /** Fields at the top that identify a document, alone or together. */
  readonly fields: readonly string[];
  /** Other fields at the top that are common: they identify no document, and are not misspelt. */
  readonly common?: readonly string[];
  /** Fields of `retry` that identify a document. */
  readonly retry?: readonly string[];
  /** Values of `kind` that identify a document. */
  readonly kinds?: readonly string[];
}

/** Views that show Perdure's tables in PostgreSQL as those of another system.
 *  @example
 *  const { schema, views }: SqlViews = dialectOf("noetl").sqlViews as SqlViews;
 *  console.log(views.map((view) => `${schema}.${view}`)); */
export interface SqlViews {
  /** The schema that they are in. */
  readonly schema: string;
  readonly views: readonly string[];
  /** One statement for each, to create it. */
  readonly statements: (options: SqlViewsOptions) => readonly string[];
}

/** Where views are created.
 *  @example
 *  const options: SqlViewsOptions = { tables: "perdure", into: "noetl", isInvoker: true }; */
export interface SqlViewsOptions {
  /** The schema of Perdure's tables. */
  readonly tables: string;
  readonly into: string;
  /** They are read with the rights of who reads them; needs PostgreSQL 15. */
  readonly isInvoker: boolean;
}

/** A source system: reads its files, and shows jobs as it does.
 *  @example
 *  const dialect: Dialect = dialectOf("opal");
 *  if (dialect.recognises(document)) console.log(`this is ${dialect.called}`); */
export interface Dialect {
  readonly name: DialectName;
  /** What its files are called in messages: "a fluster job". */
  readonly called: string;
  /** Whether a document looks like one of this system. A cheap check; the document may still be invalid. */
  recognises(document: unknown): boolean;
  /** What its documents are recognised by, for the error about a document of no known kind. */
  readonly signs: DocumentSigns;
  /** A file in the folder above a document's: readers may then read that whole folder, not only the document's own. */
  readonly packFile?: string;
  /** Throws a `ConfigError` with the path of the mistake from the document's root, as in `spec.retry.maxAttempts`. */
  read(document: unknown, context: ReadContext): Reading;
  /** Whether a job came from one of its files, or through its API. */
  isSource(job: JobInfo): boolean;
  /** Whether its view of a job shows the job's children. */
  readonly showsChildren?: boolean;
  /** A job as this system's API shows it. */
  view(parts: ViewParts): unknown;
  /** The job's events in this system's format, if it has one. */
  events?(parts: ViewParts): readonly unknown[];
  /** Its tables as views of a PostgreSQL database, if it has some. */
  readonly sqlViews?: SqlViews;
  /** The same events as a table. */
  eventTable?(parts: ViewParts): EventTable;
  /** The submit keys that a reference may belong to, if this system's clients use ids or names of their own. */
  keysOf?(reference: string): readonly string[];
  /** For help: what such a reference is, as in "the name of an AgentTask". */
  readonly reference?: string;
  /** For systems whose documents have names: a document that is applied again is the same job. */
  readonly named?: NamedDocuments;
  /** Annotations that only the dialect itself reads. */
  readonly bookkeeping?: readonly string[];
  /** Its term for the reason of a retry, if it has one. */
  retryReason?(retry: RetryRecord): string;
}

/** Compares a document with the job made from it earlier, if its name determines which job that is.
 *  @example
 *  const { named } = dialectOf("agent-task");
 *  if (named !== undefined) console.log(named.key(entry), named.differences(job, entry)); */
export interface NamedDocuments {
  /** The submit key derived from the name. A key given beside the document replaces it. */
  key(entry: ReadEntry): string;
  /** For messages: "AgentTask write-tests". */
  called(entry: ReadEntry): string;
  /** How a command refers to the job. */
  reference(job: JobInfo, entry: ReadEntry): string;
  /** What the document would change in the job that has its key; empty if nothing. A redrive of the job does not count
   *  as a change. Also compares with another document of the same name whose job is not stored yet. */
  differences(before: JobInfo | ReadEntry, entry: ReadEntry): readonly Difference[];
  /** What to do instead of applying a document that differs from a job, or from another document. */
  instead(job: JobInfo | null, entry: ReadEntry, differences: readonly Difference[]): string;
  /** Whether a job's key, without its parent's prefix, is the one derived from its name. */
  isNameKey(job: JobInfo, key: string): boolean;
}

/** One value that differs. Variables may hold secrets, so their values are left out.
 *  @example
 *  const differences: readonly Difference[] = [{ path: "spec.prompt", text: 'spec.prompt: "a" -> "b"' }]; */
export interface Difference {
  /** Its path in the document. */
  readonly path: string;
  readonly text: string;
}
