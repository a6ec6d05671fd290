/** The SQLite adapter: one synchronous connection per process; several processes may share a file. Each verb has its
 *  file. */
import { PerdureError } from "../../core/errors.ts";
import { COUNT_AT_ONCE } from "../queue-counts.ts";
import type { Store } from "../store.ts";
import { amendVerb } from "./amend.ts";
import { beatVerb, expiredReader } from "./beat.ts";
import { SqliteCalls } from "./calls.ts";
import { childStore } from "./children.ts";
import { claimVerb } from "./claim.ts";
import { clockMarkReader } from "./clock-line.ts";
import { EventLog, type SqliteContext } from "./context.ts";
import type { Database } from "./driver.ts";
import { eventReader, eventStore } from "./event-reader.ts";
import { finder } from "./find.ts";
import { insertVerb } from "./insert.ts";
import { SqliteInterned } from "./interned.ts";
import { renewVerb, usageVerb, withdrawVerb } from "./leases.ts";
import { pruneVerb } from "./prune.ts";
import { queueStore } from "./queues.ts";
import { reader } from "./read.ts";
import { runStore } from "./runs.ts";
import { sessionStore } from "./sessions.ts";
import { settingStore } from "./settings.ts";
import { settleVerb } from "./settle.ts";
import { tokenStore } from "./tokens.ts";
import { watcher } from "./watch.ts";
import { type FileWatch, Writer, type WriterClock } from "./writer.ts";

export interface SqliteOptions {
  readonly clock: WriterClock;
  readonly random: () => number;
  /** Receives messages for the operator. */
  readonly report: (message: string) => void;
  /** False for a database that no other process can open. */
  readonly shared: boolean;
  /** For the wrapper that reopens the database when its disk failed or its file was moved. */
  readonly fileWatch?: Omit<FileWatch, "onCommit"> & {
    /** Called with the number of the last committed event. */
    readonly onEvents: (last: number) => void;
  };
  /** Index entries counted in one turn of the event loop. */
  readonly countAtOnce?: number;
}

export function sqliteStore(db: Database, options: SqliteOptions): Store {
  const { clock, random, report, shared, fileWatch, countAtOnce = COUNT_AT_ONCE } = options;
  const meta = db.prepare("select value from meta where name = ?");
  const text = (name: string) => {
    const row = meta.get(name) as { value: string } | undefined;
    if (row === undefined) throw new PerdureError("store_io", `the database has no ${name}; restore a backup`);
    return row.value;
  };
  const events = new EventLog(db);
  const interned = new SqliteInterned(db);
  const started: SqliteContext["started"] = new Map();
  const context: SqliteContext = { db, interned, events, started, generation: text("generation") };
  const forget = () => {
    interned.forget();
    events.discard();
    started.clear();
  };
  const onCommit = () => {
    const last = events.takeLast();
    if (last > 0) fileWatch?.onEvents(last);
  };
  const writer = new Writer(
    db,
    clock,
    random,
    report,
    forget,
    fileWatch === undefined ? null : { ...fileWatch, onCommit },
  );

  const feed = eventReader(context);
  const read = reader(context, feed.ofJob);
  const find = finder(context, read, text("secret"), clock);
  const verbs = {
    insert: insertVerb(context),
    claim: claimVerb(context),
    withdraw: withdrawVerb(context),
    renew: renewVerb(context),
    settle: settleVerb(context),
    usage: usageVerb(context),
    amend: amendVerb(context),
    beat: beatVerb(context),
    prune: pruneVerb(context),
  };
  const expired = expiredReader(context);
  const clockMarks = clockMarkReader(context);
  const watch = watcher(db, shared);
  const calls = new SqliteCalls(writer, clock, random);

  return {
    claimsAtOnce: 1,
    lists: { together: 2_000, beside: false },
    insert: (jobs, now) =>
      calls.submit(
        verbs.insert,
        jobs.map((job) => ({ job, now })),
      ),
    async claim(requests, now) {
      const answers = await calls.answer(() => requests.map((request) => verbs.claim.peek(request, now)));
      const busy = requests.filter((_, i) => answers[i] === null).map((request) => ({ request, now }));
      const claimed = await calls.submit(verbs.claim, busy);
      return answers.map((found) => found ?? (claimed.shift() as (typeof claimed)[number]));
    },
    withdrawClaim: (request) => calls.one(verbs.withdraw, request),
    renew: (requests, now) =>
      calls.submit(
        verbs.renew,
        requests.map((request) => ({ request, now })),
      ),
    settle: (reports, now, decide) =>
      calls.submit(
        verbs.settle,
        reports.map((report) => ({ report, now, decide })),
      ),
    setUsage: (jobId, attempt, usage) => calls.one(verbs.usage, { jobId, attempt, usage }),
    amend: (commands, now, decide, parentId) =>
      calls.submit(
        verbs.amend,
        commands.map(({ jobId, command }) => ({ jobId, command, now, decide, parentId })),
      ),
    jobs: (ids) => calls.answer(() => ids.map(read.job)),
    facts: (ids) => calls.answer(() => ids.map(read.fact)),
    ended: (ids) => calls.answer(() => read.ended(ids)),
    find: (filter) => calls.inSlices((slice) => find(filter, slice)),
    history: (id, options) => calls.answer(() => read.history(id, options?.events !== false)),
    attempts: (id, page) => calls.answer(() => read.attempts(id, page)),
    log: (id, attempt, after) => calls.answer(() => read.log(id, attempt, after)),
    expired: (query) => calls.answer(() => expired(query)),
    beat: (beat) => calls.one(verbs.beat, beat),
    clockMarks: () => calls.answer(clockMarks),
    prune: (query) => calls.one(verbs.prune, query),
    children: childStore(context, calls),
    runs: runStore(context, read, calls),
    events: eventStore(feed, read.stored, calls, clock),
    sessions: sessionStore(context, calls),
    queues: queueStore(context, calls, { countAtOnce, loop: clock }),
    tokens: tokenStore(context, calls),
    settings: settingStore(context, calls),
    watch: watch.add,
    async close() {
      if (!calls.close()) return;
      watch.stop();
      await calls.ended();
      if (!writer.isBroken) checkpointLog(db);
      db.close();
    },
  };
}

/** The driver for Node 20 releases a file only when its statements are garbage-collected. Until then the write-ahead
 *  log would stay beside the file, and copying the file of a closed store would copy little or nothing. */
function checkpointLog(db: Database): void {
  try {
    db.exec("pragma wal_checkpoint(truncate)");
  } catch {
    // The disk is full or broken: the log stays and is read when the file is opened again.
  }
}
