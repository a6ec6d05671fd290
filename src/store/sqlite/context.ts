/** What the verbs of one open database share, including the event log: events of a transaction are collected and
 *  inserted together, with the messages to runs that follow from them. */
import type { JobEventBody } from "../../core/job/event.ts";
import type { JobProgressFields } from "../../core/job/job.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import { messageOf } from "../../core/run/inbox.ts";
import type { RunMessageKind } from "../../core/run/run.ts";
import type { StoredJob } from "../stored-job.ts";
import { BulkInsert, type Database, type SqlValue } from "./driver.ts";
import type { SqliteInterned } from "./interned.ts";

export interface SqliteContext {
  readonly db: Database;
  readonly interned: SqliteInterned;
  readonly events: EventLog;
  /** Jobs that this connection started, as they were then, until they are settled. If the revision is unchanged, so is
   *  the job, and it need not be read again. */
  readonly started: Map<string, StoredJob>;
  /** Identifies this database: a token of another database does not match. A copy of the file keeps it. */
  readonly generation: string;
}

/** A change of a job. */
interface StoredChange {
  readonly event: JobEventBody;
  readonly next: JobProgressFields;
}

// The event log of one transaction: rows are collected and inserted together.

export class EventLog {
  readonly #insert: BulkInsert;
  readonly #insertMessages: BulkInsert;
  #rows: SqlValue[] = [];
  #messages: SqlValue[] = [];
  #last = 0;

  constructor(db: Database) {
    this.#insert = new BulkInsert(db, "event", ["job", "n", "at", "name", "data"]);
    this.#insertMessages = new BulkInsert(db, "inbox", ["job", "kind", "ref", "at", "body"]);
  }

  /** The event of every change but a submit and a start. All verbs that can end a job go through here, so that no end of a step
   *  misses the inbox of its run. */
  record(job: StoredJob, { event, next }: StoredChange, now: number): void {
    this.add(job.no, next.revision, now, event.name, event.data);
    if (job.run === null && job.kind !== RUN_KIND) return;
    const message = messageOf(job, event, next);
    if (message === null) return;
    const { kind, ref, body } = message;
    this.send(message.run === job.id ? job.no : (job.run as number), kind, now, ref, body);
  }

  /** A message to a run, by the number of its job. */
  send(run: number, kind: RunMessageKind, at: number, ref: string | null, body: unknown): void {
    this.#messages.push(run, kind, ref, at, body === null || body === undefined ? null : JSON.stringify(body));
  }

  add(job: number | null, n: number, at: number, name: string, data: object | string): void {
    this.#rows.push(job, n, at, name, typeof data === "string" ? data : JSON.stringify(data));
  }

  flush(): void {
    const rows = this.#rows;
    this.#rows = [];
    this.#last = this.#insert.run(rows) || this.#last;
    if (this.#messages.length === 0) return;
    const messages = this.#messages;
    this.#messages = [];
    this.#insertMessages.run(messages);
  }

  /** Drops what a failed try of a group collected. */
  discard(): void {
    this.#rows = [];
    this.#messages = [];
    this.#last = 0;
  }

  /** The number of the last event since the previous call; 0 if there is none. Call after the commit. */
  takeLast(): number {
    const last = this.#last;
    this.#last = 0;
    return last;
  }
}
