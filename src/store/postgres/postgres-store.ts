/** The PostgreSQL adapter: many processes on many hosts, each verb in its file. */
import { createHash } from "node:crypto";
import { PerdureError } from "../../core/errors.ts";
import type { SettleAnswer } from "../../core/worker-protocol.ts";
import { type Clock, sleep } from "../../lib/clock.ts";
import type { SettleItem } from "../plan/settle.ts";
import type { Store } from "../store.ts";
import { settingVerbs, tokenVerbs } from "./access.ts";
import { amendVerb } from "./amend.ts";
import { beatVerb, expiredReader } from "./beat.ts";
import { postgresBlobs } from "./blobs.ts";
import { claimVerb } from "./claim.ts";
import { ClaimCursors } from "./claim-cursors.ts";
import type { PgConnections } from "./connections.ts";
import { type PostgresContext, statements } from "./context.ts";
import { finder } from "./find.ts";
import { GroupCommit } from "./group.ts";
import { hasParents, insertChildrenVerb, insertVerb, insertWithin } from "./insert-verbs.ts";
import { PostgresInterned } from "./interned.ts";
import { laneCounter } from "./lanes.ts";
import { renewVerb, withdrawVerb } from "./leases.ts";
import { pruneVerb } from "./prune.ts";
import { countReader, pauseVerb } from "./queues.ts";
import { reader } from "./read.ts";
import { hasRunQueues } from "./run-lanes.ts";
import { sessionVerbs } from "./sessions.ts";
import { settler } from "./settle.ts";
import { lockedSettleVerb } from "./settle-locked.ts";
import { waitVerbs } from "./waits.ts";
import { watcher } from "./watch.ts";

export interface PostgresOptions {
  readonly schema: string;
  readonly clock: Clock;
  readonly random: () => number;
}

const CLOSE_WAIT_MS = 10_000;

export async function postgresStore(db: PgConnections, { schema, clock, random }: PostgresOptions): Promise<Store> {
  const sql = statements(schema);
  const meta = new Map((await db.read(sql("meta", "select name, value from $s.meta"))).map(([k, v]) => [k, String(v)]));
  const fact = (name: string) => {
    const value = meta.get(name);
    if (value === undefined) throw new PerdureError("store_io", `the database has lost its ${name}: restore a backup`);
    return value;
  };
  const me = Math.floor(random() * 2 ** 48).toString(36);
  // The name of a channel may be no longer than that of a schema.
  const short = schema.length <= 50 ? schema : createHash("sha256").update(schema).digest("hex").slice(0, 40);
  const channel = `perdure_${short}`;
  const marks = new ClaimCursors();
  const watch = watcher(db.config, channel, me, clock, () => marks.lookAtWhole());
  const context: PostgresContext = {
    ...{ db, sql, clock, interned: new PostgresInterned(db, sql), started: new Map(), marks },
    ...{ generation: fact("generation"), wrote: watch.wrote },
  };
  const read = reader(context);
  const find = finder(context, read, fact("secret"));
  const sessions = sessionVerbs(context);
  const amend = amendVerb(context);
  const groups = {
    insert: new GroupCommit(insertVerb(context), clock),
    // Apart: a key may have to wait for somebody's open transaction.
    insertKeyed: new GroupCommit({ ...insertVerb(context), inFlight: 3 }, clock),
    insertChildren: new GroupCommit(insertChildrenVerb(context), clock),
    locked: new GroupCommit<SettleItem, SettleAnswer>(lockedSettleVerb(context), clock),
    amend: new GroupCommit(amend, clock),
  };
  const within = insertWithin(context, channel);
  const time = sql("time", "select (extract(epoch from clock_timestamp()) * 1000)::bigint");
  const settling = settler(context, groups.locked);
  const claim = claimVerb(context, sessions);
  const withdraw = withdrawVerb(context, sessions);
  const renew = renewVerb(context);
  const beat = beatVerb(context);
  const expired = expiredReader(context);
  const waits = waitVerbs(context);
  const counts = countReader(context);
  const pause = pauseVerb(context);
  const prune = pruneVerb(context);
  const tokens = tokenVerbs(context);
  const { laneCount, policyCount, laneUse } = laneCounter(context);
  const settings = settingVerbs(context);
  const underWay = new Set<Promise<unknown>>();
  let open = true;

  /** Every call goes through here: none begins after `close`, and `close` waits for those under way. */
  async function call<T>(give: () => Promise<T>): Promise<T> {
    if (!open) throw new PerdureError("closed", "the store is closed");
    const promise = give();
    underWay.add(promise);
    try {
      return await promise;
    } finally {
      underWay.delete(promise);
    }
  }

  return {
    claimsAtOnce: 2,
    lists: { together: 250, beside: true },
    insert: (jobs, now) => {
      const unrelated = jobs.some((job) => job.key !== null) ? groups.insertKeyed : groups.insert;
      const group = hasParents(jobs) || hasRunQueues(jobs) ? groups.insertChildren : unrelated;
      return call(() => group.submit(jobs.map((job) => ({ job, now }))));
    },
    insertWithin: (client, jobs, now) =>
      call(() =>
        within(
          client,
          jobs.map((job) => ({ job, now })),
        ),
      ),
    serverTime: () => call(async () => (await db.read(time, [], { reserved: true }))[0]?.[0] as number),
    claim: (requests, now) => call(() => claim(requests, now)),
    withdrawClaim: (request) => call(() => withdraw(request)),
    renew: (requests, now) => call(() => renew(requests, now)),
    settle: (reports, now, decide) => call(() => settling.settle(reports.map((report) => ({ report, now, decide })))),
    expired: (query) => call(() => expired(query)),
    amend: (commands, now, decide, parentId) =>
      call(() => {
        const items = commands.map(({ jobId, command }) => ({ jobId, command, now, decide }));
        return parentId === undefined ? groups.amend.submit(items) : amend.runFor(parentId, items);
      }),
    unblockable: (query) => call(() => waits.unblockable(query)),
    childCounts: (parents) => call(() => waits.childCounts(parents)),
    reachable: (query) => call(() => waits.reachable(query)),
    cascades: (limit) => call(() => waits.cascades(limit)),
    cascaded: (jobId) => call(() => waits.cascaded(jobId)),
    setUsage: (jobId, attempt, usage) => call(() => waits.setUsage(jobId, attempt, usage)),
    jobs: (ids) => call(() => read.jobs(ids)),
    facts: (ids) => call(() => read.facts(ids)),
    ended: (ids) => call(() => read.ended(ids)),
    find: (filter) => call(() => find(filter)),
    history: (id, options) => call(() => read.history(id, options?.events !== false)),
    attempts: (id, page) => call(() => read.attempts(id, page)),
    lastFailures: (ids) => call(() => read.lastFailures(ids)),
    log: (id, attempt, after) => call(() => read.log(id, attempt, after)),
    events: (query) => call(async () => (await read.eventPage(query)).events),
    eventPage: (query) => call(() => read.eventPage(query)),
    lastSeq: () => call(read.lastSeq),
    openSession: (session, now) => call(() => sessions.open(session, now)),
    closeSession: (id, now, why = "stopped") => call(() => sessions.close(id, now, why)),
    drainSession: (id, now, by = null) => call(() => sessions.drain(id, now, by)),
    sessions: (query) => call(() => sessions.page(query)),
    session: (id) => call(() => sessions.one(id)),
    workerNames: (ids) => call(() => sessions.names(ids)),
    openSessions: () => call(sessions.stillOpen),
    taskDefaults: (namespace, kind) => call(() => sessions.taskDefaults(namespace, kind)),
    cancelsFor: (ids) => call(() => sessions.cancelsFor(ids)),
    counts: (namespace, now) => call(() => counts.of(namespace, now)),
    setPaused: (namespace, queue, paused, now, by = null) =>
      call(async () => {
        await pause(namespace, queue, paused, now, by);
        counts.forget();
      }),
    beat: (given) => call(() => beat(given)),
    prune: (query) => call(() => prune(query)),
    addToken: (token, by = null) => call(() => tokens.add(token, by)),
    tokens: () => call(tokens.all),
    laneCount: (namespace) => call(() => laneCount(namespace)),
    policyCount: () => call(policyCount),
    laneUse: (query) => call(() => laneUse(query)),
    revokeToken: (id, now, by = null) => call(() => tokens.revoke(id, now, by)),
    setting: (name) => call(() => settings.get(name)),
    setSettingIfAbsent: (name, value) => call(() => settings.setIfAbsent(name, value)),
    replaceSetting: (name, from, to, record) => call(() => settings.replace(name, from, to, record)),
    formerSecret: () => call(settings.formerSecret),
    eraseFormerSecret: () => call(settings.eraseFormerSecret),
    blobs: () => postgresBlobs(context, call),
    watch: watch.add,
    async close() {
      if (!open) return;
      open = false;
      // What is under way is waited for, but not for ever: the server may be silent.
      await Promise.race([Promise.allSettled([...underWay]), sleep(clock, CLOSE_WAIT_MS, { background: true })]);
      await watch.stop();
      await db.close();
    },
  };
}
