/** What a dialect is: the words of one source system, read into jobs of ours, and a job of ours told in its words. Pure:
 *  whoever calls reads the files, and stores the jobs. Nothing outside this folder knows a dialect's words. */

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

/** What a reader may ask for beside the document.
 *  @example
 *  const context: ReadContext = {
 *    ...{ settings: DIALECT_DEFAULTS, parameters: {}, documents: [], file: "job.yaml" },
 *    ...{ yaml: () => null, bytes: () => null, randomBytes: (count: number) => new Uint8Array(count) },
 *  }; */
export interface ReadContext {
  readonly settings: DialectSettings;
  /** What people give with `-p`: for dialects whose files take parameters. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Other documents that came with it, as the roles of an agent. */
  readonly documents: readonly unknown[];
  /** A YAML file, by its path from the document's own folder, or null if there is none. */
  yaml(path: string): unknown | null;
  /** The bytes of a file, by its path from the document's own folder, or null if there is none. */
  bytes(path: string): Uint8Array | null;
  /** The name of the file, as given; for messages and for names that follow from it. */
  readonly file: string;
  /** Who makes ids where a dialect wants one before its job is stored. */
  randomBytes(count: number): Uint8Array;
}

/** One job of a document. The kind is a name: a file cannot hold a function.
 *  @example
 *  const entry: ReadEntry = { task: "exec", input: { argv: ["true"] } }; */
export type ReadEntry = SubmitEntry & { readonly task: string };

/** The jobs of a document, and what of it cannot be done.
 *  @example
 *  const { jobs, notes }: Reading = dialectOf("fluster").read(document, context); */
export interface Reading {
  readonly jobs: readonly ReadEntry[];
  /** What the document says and Perdure cannot do, one sentence each. Never a mistake: those are thrown. */
  readonly notes: readonly string[];
}

/** Everything there is to tell of a job.
 *  @example
 *  const parts: ViewParts = { job: await job.get(), attempts: await job.attempts(), events, workerName: () => null }; */
export interface ViewParts {
  readonly job: JobInfo;
  /** Those that have ended, oldest first. */
  readonly attempts: readonly AttemptRow[];
  /** All of this job, in order. */
  readonly events: readonly JobEvent[];
  /** The name of a worker by its session, as far as it is known. */
  readonly workerName: (session: string) => string | null;
  /** Its children, for views that show them; left out, nothing is shown of them. */
  readonly children?: ViewChildren;
  /** The instant at which it is asked. Without it, the last event's is taken: some waits then look longer than they are. */
  readonly now?: number;
}

/** Children of a job, as many as a view shows.
 *  @example
 *  const { jobs: children, more } = parts.children ?? ({ jobs: [], more: false } satisfies ViewChildren); */
export interface ViewChildren {
  readonly jobs: readonly JobInfo[];
  /** There are others. */
  readonly more: boolean;
}

/** Events of another system for people: a head for each column, and the cells of each line.
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

/** A source system: reads its files, and shows jobs as it does.
 *  @example
 *  const dialect: Dialect = dialectOf("opal");
 *  if (dialect.recognises(document)) console.log(`this is ${dialect.called}`); */
export interface Dialect {
  readonly name: DialectName;
  /** What its files are called in messages: "a fluster job". */
  readonly called: string;
  /** Whether a document looks like one of its own. Cheap, and no promise that it is a good one. */
  recognises(document: unknown): boolean;
  /** What its documents are recognised by, for the error about a document of no known kind. */
  readonly signs: DocumentSigns;
  /** A file in the folder above a document's: readers may then read that whole folder, not only the document's own. */
  readonly packFile?: string;
  /** Throws a `ConfigError` whose path leads to the mistake from the document's root, as in `spec.retry.maxAttempts`. */
  read(document: unknown, context: ReadContext): Reading;
  /** Whether a job was made from one of its files, or by its API. */
  isSource(job: JobInfo): boolean;
  /** Whether its view of a job shows the job's children. */
  readonly showsChildren?: boolean;
  /** A job as this system's API shows it. */
  view(parts: ViewParts): unknown;
  /** Its events in this system's words, where it has such. */
  events?(parts: ViewParts): readonly unknown[];
  /** The same events for people. */
  eventTable?(parts: ViewParts): EventTable;
  /** The submit keys of the jobs that a text may stand for, where this system's clients know its jobs by ids of their own. */
  keysOf?(reference: string): readonly string[];
  /** For help: what such a text is, as in "the name of an AgentTask". */
  readonly reference?: string;
  /** For systems whose documents are objects with a name: applied again, they are the same job. */
  readonly named?: NamedDocuments;
  /** Annotations that only the dialect itself reads. */
  readonly bookkeeping?: readonly string[];
  /** Its term for why a job was run again, where it has such. */
  retryReason?(retry: RetryRecord): string;
}

/** A document and the job that was made from it before, where its name decides which job that is.
 *  @example
 *  const { named } = dialectOf("agent-task");
 *  if (named !== undefined) console.log(named.key(entry), named.differences(job, entry)); */
export interface NamedDocuments {
  /** The submit key that follows from the name. A key that is given beside the document takes its place. */
  key(entry: ReadEntry): string;
  /** For messages: "AgentTask write-tests". */
  called(entry: ReadEntry): string;
  /** How a command names the job. */
  reference(job: JobInfo, entry: ReadEntry): string;
  /** What the document would change in the job that has its key; empty if that is the same. A redrive of the job is no change
   *  of its document. Also of another document with the same name, whose job is not stored yet. */
  differences(before: JobInfo | ReadEntry, entry: ReadEntry): readonly Difference[];
  /** What to do instead of applying a document that differs from a job, or from another document. */
  instead(job: JobInfo | null, entry: ReadEntry, differences: readonly Difference[]): string;
  /** Whether a key of a job, without its parent in front, is the one that follows from its name. */
  isNameKey(job: JobInfo, key: string): boolean;
}

/** One value that differs. Variables, which may hold secrets, are named without their values.
 *  @example
 *  const differences: readonly Difference[] = [{ path: "spec.prompt", text: 'spec.prompt: "a" -> "b"' }]; */
export interface Difference {
  /** In the document. */
  readonly path: string;
  readonly text: string;
}
