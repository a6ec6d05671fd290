/** The SQLite adapter: one connection, synchronous inside, several processes on one file. Each verb has its file. */
import { PerdureError } from "../../core/errors.ts";
import { sleep } from "../../lib/clock.ts";
import { namespacePage, wholePage } from "../pages.ts";
import { COUNT_AT_ONCE, keptCounts } from "../queue-counts.ts";
import type { EventPage, EventQuery, Store } from "../store.ts";
import {
  addTokenVerb,
  eraseSecretVerb,
  formerSecretReader,
  replaceSettingVerb,
  revokeTokenVerb,
  settingReader,
  settingVerb,
  tokenReader,
  truncateErasedSecret,
} from "./access.ts";
import { amendVerb } from "./amend.ts";
import { beatVerb, expiredReader } from "./beat.ts";
import { claimVerb } from "./claim.ts";
import { clockMarkReader } from "./clock-line.ts";
import { EventLog, type SqliteContext } from "./context.ts";
import type { Database } from "./driver.ts";
import { readError } from "./error-classes.ts";
import { finder } from "./find.ts";
import { insertVerb } from "./insert.ts";
import { SqliteInterned } from "./interned.ts";
import { laneCounter } from "./lanes.ts";
import { renewVerb, withdrawVerb } from "./leases.ts";
import { pruneVerb } from "./prune.ts";
import { countReader, pauseVerb } from "./queues.ts";
import { reader } from "./read.ts";
import { closeSessionVerb, drainSessionVerb, openSessionVerb, sessionReader } from "./sessions.ts";
import { settleVerb } from "./settle.ts";
import { cascadedVerb, cascadeReader, childCounter, reachableReader, unblockableReader, usageVerb } from "./waits.ts";
import { watcher } from "./watch.ts";
import { BUSY_WAIT_MS, type FileWatch, isLocked, Writer, type WriterClock } from "./writer.ts";

export interface SqliteOptions {
  readonly clock: WriterClock;
  readonly random: () => number;
  /** Words for the operator. */
  readonly report: (message: string) => void;
  /** False for a database that no other process can see. */
  readonly shared: boolean;
  /** For whoever opens the database again when its disk has failed, or its file was moved. */
  readonly fileWatch?: Omit<FileWatch, "onCommit"> & {
    /** The number of the last event that was committed. */
    readonly onEvents: (last: number) => void;
  };
  /** Entries of an index that are counted in one turn of the event loop. */
  readonly countAtOnce?: number;
}

/** Readers wait for nobody, save while another process mends the file after a crash: a few seconds' worth of tries. */
const MAX_LOCKED_READS = 1_000;

export function sqliteStore(db: Database, options: SqliteOptions): Store {
  const { clock, random, report, shared, fileWatch, countAtOnce = COUNT_AT_ONCE } = options;
  const meta = db.prepare("select value from meta where name = ?");
  const text = (name: string) => {
    const row = meta.get(name) as { value: string } | undefined;
    if (row === undefined) throw new PerdureError("store_io", `the database has lost its ${name}: restore a backup`);
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

  const read = reader(context);
  const find = finder(context, read, text("secret"), clock);
  const verbs = {
    settle: settleVerb(context),
    amend: amendVerb(context),
    insert: insertVerb(context),
    openSession: openSessionVerb(context),
    renew: renewVerb(context),
    beat: beatVerb(context),
    pause: pauseVerb(context),
    prune: pruneVerb(context),
    closeSession: closeSessionVerb(context),
    drainSession: drainSessionVerb(context),
    addToken: addTokenVerb(context),
    revokeToken: revokeTokenVerb(context),
    setting: settingVerb(context),
    replaceSetting: replaceSettingVerb(context),
    eraseSecret: eraseSecretVerb(context),
    cascaded: cascadedVerb(context),
    usage: usageVerb(context),
    claim: claimVerb(context),
    withdraw: withdrawVerb(context),
  };
  const sessions = sessionReader(context);
  const expired = expiredReader(context);
  const clockMarks = clockMarkReader(context);
  const unblockable = unblockableReader(context);
  const cascades = cascadeReader(context);
  const childCounts = childCounter(context);
  const reachable = reachableReader(context);
  const count = countReader(context, countAtOnce, clock);
  const counts = keptCounts((now) => inSlices((slice) => count(now, slice)), countAtOnce);
  const tokens = tokenReader(context);
  const { laneCount, policyCount, laneUse } = laneCounter(context);
  const setting = settingReader(context);
  const formerSecret = formerSecretReader(context);
  const watch = watcher(db, shared);
  let open = true;
  const readings = new Set<Promise<unknown>>();

  /** Reads answer at once, and in the same order as the calls. */
  async function answer<T>(give: () => T): Promise<T> {
    if (!open) throw new PerdureError("closed", "the store is closed");
    return readNow(give);
  }
  /** A search or a count has turns of the event loop in between: a store that is closed in one of them waits for it. */
  async function inSlices<T>(read: (slice: typeof readNow) => Promise<T>): Promise<T> {
    if (!open) throw new PerdureError("closed", "the store is closed");
    const reading = read(readNow);
    readings.add(reading);
    try {
      return await reading;
    } finally {
      readings.delete(reading);
    }
  }
  async function readNow<T>(give: () => T): Promise<T> {
    for (let tries = 0; ; tries++) {
      try {
        return give();
      } catch (error) {
        if (!isLocked(error) || tries >= MAX_LOCKED_READS || !open) throw readError(error);
      }
      await sleep(clock, 1 + random() * BUSY_WAIT_MS);
    }
  }
  async function one<Item, Answer>(
    verb: Parameters<typeof writer.submit<Item, Answer>>[0],
    item: Item,
  ): Promise<Answer> {
    return (await submit(verb, [item]))[0] as Answer;
  }
  function submit<Item, Answer>(verb: Parameters<typeof writer.submit<Item, Answer>>[0], items: readonly Item[]) {
    if (!open) return Promise.reject(new PerdureError("closed", "the store is closed"));
    return writer.submit(verb, items);
  }

  async function eventPage(query: EventQuery): Promise<EventPage> {
    const { namespace, jobId } = query;
    if (namespace === undefined || jobId !== undefined) return wholePage(await answer(() => read.events(query)), query);
    return namespacePage({ ...query, namespace }, clock, (range, most) =>
      answer(() => read.scanEvents(namespace, range, most, query.order)),
    );
  }

  return {
    claimsAtOnce: 1,
    lists: { together: 2_000, beside: false },
    insert: (jobs, now) =>
      submit(
        verbs.insert,
        jobs.map((job) => ({ job, now })),
      ),
    async claim(requests, now) {
      const answers = await answer(() => requests.map((request) => verbs.claim.peek(request, now)));
      const busy = requests.filter((_, i) => answers[i] === null).map((request) => ({ request, now }));
      const claimed = await submit(verbs.claim, busy);
      return answers.map((found) => found ?? (claimed.shift() as (typeof claimed)[number]));
    },
    withdrawClaim: (request) => one(verbs.withdraw, request),
    renew: (requests, now) =>
      submit(
        verbs.renew,
        requests.map((request) => ({ request, now })),
      ),
    settle: (reports, now, decide) =>
      submit(
        verbs.settle,
        reports.map((report) => ({ report, now, decide })),
      ),
    amend: (commands, now, decide, parentId) =>
      submit(
        verbs.amend,
        commands.map(({ jobId, command }) => ({ jobId, command, now, decide, parentId })),
      ),
    expired: (query) => answer(() => expired(query)),
    unblockable: (query) => answer(() => unblockable(query)),
    childCounts: (parents) => answer(() => childCounts(parents)),
    reachable: (query) => answer(() => reachable(query)),
    cascades: (limit) => answer(() => cascades(limit)),
    cascaded: async (jobId) => {
      await one(verbs.cascaded, jobId);
    },
    setUsage: (jobId, attempt, usage) => one(verbs.usage, { jobId, attempt, usage }),
    jobs: (ids) => answer(() => ids.map(read.job)),
    facts: (ids) => answer(() => ids.map(read.fact)),
    ended: (ids) => answer(() => read.ended(ids)),
    find: (filter) => inSlices((slice) => find(filter, slice)),
    history: (id, options) => answer(() => read.history(id, options?.events !== false)),
    attempts: (id, page) => answer(() => read.attempts(id, page)),
    lastFailures: (ids) => answer(() => ids.map(read.lastFailure)),
    log: (id, attempt, after) => answer(() => read.log(id, attempt, after)),
    events: async (query) => (await eventPage(query)).events,
    eventPage,
    lastSeq: () => answer(read.lastSeq),
    openSession: (session, now) => one(verbs.openSession, { session, now }),
    closeSession: async (id, now, why = "stopped") => {
      await one(verbs.closeSession, { id, now, why });
    },
    drainSession: (id, now, by = null) => one(verbs.drainSession, { id, now, by }),
    sessions: (query) => answer(() => sessions.sessions(query)),
    session: (id) => answer(() => sessions.session(id)),
    workerNames: (ids) => answer(() => sessions.workerNames(ids)),
    openSessions: () => answer(sessions.openSessions),
    taskDefaults: (namespace, kind) => answer(() => sessions.taskDefaults(namespace, kind)),
    cancelsFor: (ids) => answer(() => sessions.cancelsFor(ids)),
    counts: counts.of,
    setPaused: async (namespace, queue, paused, now, by = null) => {
      await one(verbs.pause, { namespace, queue, paused, now, by });
      counts.forget();
    },
    beat: (beat) => one(verbs.beat, beat),
    clockMarks: () => answer(clockMarks),
    prune: (query) => one(verbs.prune, query),
    addToken: async (token, by = null) => {
      await one(verbs.addToken, { token, by });
    },
    tokens: () => answer(tokens),
    laneCount: (namespace) => answer(() => laneCount(namespace)),
    policyCount: () => answer(policyCount),
    laneUse: (query) => answer(() => laneUse(query)),
    revokeToken: (id, now, by = null) => one(verbs.revokeToken, { id, now, by }),
    setting: (name) => answer(() => setting(name)),
    setSettingIfAbsent: (name, value) => one(verbs.setting, { name, value }),
    replaceSetting: (name, from, to, record) => one(verbs.replaceSetting, { name, from, to, record }),
    formerSecret: () => answer(formerSecret),
    eraseFormerSecret: async () => {
      await one(verbs.eraseSecret, null);
      truncateErasedSecret(db);
    },
    watch: watch.add,
    async close() {
      if (!open) return;
      open = false;
      watch.stop();
      await writer.drained();
      await Promise.allSettled(readings);
      if (!writer.isBroken) bringLogHome(db);
      db.close();
    },
  };
}

/** The driver for Node 20 lets go of a file only when its statements have been collected. Until then the write-ahead
 *  log would stay beside the file, and whoever copies the file of a closed store would copy little or nothing. */
function bringLogHome(db: Database): void {
  try {
    db.exec("pragma wal_checkpoint(truncate)");
  } catch {
    // A disk that is full or broken: the log is still there, and is read when the file is opened again.
  }
}
