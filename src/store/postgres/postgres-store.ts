/** The PostgreSQL adapter: many processes on many hosts, each verb in its file. */
import { createHash } from "node:crypto";
import { PerdureError } from "../../core/errors.ts";
import type { SettleAnswer } from "../../core/worker-protocol.ts";
import { type Clock, sleep } from "../../lib/clock.ts";
import type { SettleItem } from "../plan/settle.ts";
import type { AdvanceAnswer, JobRow, RunStore, Store } from "../store.ts";
import { type AdvanceItem, advanceVerb } from "./advance.ts";
import { amendVerb } from "./amend.ts";
import { beatVerb, expiredReader } from "./beat.ts";
import { postgresBlobs } from "./blobs.ts";
import { childStore } from "./children.ts";
import { claimVerb } from "./claim.ts";
import { ClaimCursors } from "./claim-cursors.ts";
import type { PgConnections } from "./connections.ts";
import { type PostgresContext, statements } from "./context.ts";
import { eventReader, eventStore } from "./event-reader.ts";
import { finder } from "./find.ts";
import { GroupCommit } from "./group.ts";
import { hasParents, insertChildrenVerb, insertVerb, insertWithin } from "./insert-verbs.ts";
import { PostgresInterned } from "./interned.ts";
import { renewVerb, usageVerb, withdrawVerb } from "./leases.ts";
import { playbookStore } from "./playbooks.ts";
import { pruneVerb } from "./prune.ts";
import { queueStore } from "./queues.ts";
import { reader } from "./read.ts";
import { hasRunQueues } from "./run-lanes.ts";
import { runReads } from "./runs.ts";
import { sessionFacts, sessionStore } from "./sessions.ts";
import { settingStore } from "./settings.ts";
import { settler } from "./settle.ts";
import { lockedSettleVerb } from "./settle-locked.ts";
import { tokenStore } from "./tokens.ts";
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
    if (value === undefined) throw new PerdureError("store_io", `the database has no ${name}; restore a backup`);
    return value;
  };
  const me = Math.floor(random() * 2 ** 48).toString(36);
  // A channel name may be no longer than a schema name.
  const short = schema.length <= 50 ? schema : createHash("sha256").update(schema).digest("hex").slice(0, 40);
  const channel = `perdure_${short}`;
  const marks = new ClaimCursors();
  const watch = watcher(db.config, channel, me, clock, () => marks.scanWhole());
  const context: PostgresContext = {
    ...{ db, sql, clock, interned: new PostgresInterned(db, sql), started: new Map(), marks },
    ...{ generation: fact("generation"), wrote: watch.wrote },
  };
  const feed = eventReader(context);
  const read = reader(context, feed.ofJob);
  const find = finder(context, read, fact("secret"));
  const facts = sessionFacts(context);
  const amend = amendVerb(context);
  const groups = {
    insert: new GroupCommit(insertVerb(context), clock),
    // Separate: a key may have to wait for another open transaction.
    insertKeyed: new GroupCommit({ ...insertVerb(context), inFlight: 3 }, clock),
    insertChildren: new GroupCommit(insertChildrenVerb(context), clock),
    locked: new GroupCommit<SettleItem, SettleAnswer>(lockedSettleVerb(context), clock),
    amend: new GroupCommit(amend, clock),
    // Many callers read one job at the same time, as those that wait for an end do. The results may be large.
    jobs: new GroupCommit<string, JobRow | null>({ inFlight: 4, together: 50, run: read.jobs }, clock),
    advance: new GroupCommit<AdvanceItem, AdvanceAnswer>(advanceVerb(context), clock),
  };
  const within = insertWithin(context, channel);
  const time = sql("time", "select (extract(epoch from clock_timestamp()) * 1000)::bigint");
  const settling = settler(context, groups.locked);
  const claim = claimVerb(context, facts);
  const withdraw = withdrawVerb(context, facts);
  const renew = renewVerb(context);
  const setUsage = usageVerb(context);
  const beat = beatVerb(context);
  const expired = expiredReader(context);
  const prune = pruneVerb(context);
  const underWay = new Set<Promise<unknown>>();
  let open = true;

  /** Every call goes through here: none starts after `close`, and `close` waits for those in progress. */
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
    setUsage: (jobId, attempt, usage) => call(() => setUsage(jobId, attempt, usage)),
    jobs: (ids) => call(() => (ids.length === 1 ? groups.jobs.submit(ids) : read.jobs(ids))),
    facts: (ids) => call(() => read.facts(ids)),
    ended: (ids) => call(() => read.ended(ids)),
    find: (filter) => call(() => find(filter)),
    history: (id, options) => call(() => read.history(id, options?.events !== false)),
    attempts: (id, page) => call(() => read.attempts(id, page)),
    log: (id, attempt, after) => call(() => read.log(id, attempt, after)),
    beat: (given) => call(() => beat(given)),
    prune: (query) => call(() => prune(query)),
    runs: through(call, {
      ...runReads(context),
      ...playbookStore(context),
      advance: (writes, now) => groups.advance.submit(writes.map((write) => ({ write, now }))),
    } satisfies RunStore),
    children: through(call, childStore(context)),
    events: through(call, eventStore(feed, read.known)),
    sessions: through(call, sessionStore(context)),
    queues: through(call, queueStore(context)),
    tokens: through(call, tokenStore(context)),
    settings: through(call, settingStore(context)),
    blobs: () => postgresBlobs(context, call),
    watch: watch.add,
    async close() {
      if (!open) return;
      open = false;
      // Calls in progress are awaited, but not forever: the server may not respond.
      await Promise.race([Promise.allSettled([...underWay]), sleep(clock, CLOSE_WAIT_MS, { background: true })]);
      await watch.stop();
      await db.close();
    },
  };
}

type Call = <T>(give: () => Promise<T>) => Promise<T>;

/** The same methods, each called through `call`. */
function through<Part extends { readonly [Name in keyof Part]: (...args: never[]) => Promise<unknown> }>(
  call: Call,
  part: Part,
): Part {
  const methods = Object.entries(part) as [string, (...args: unknown[]) => Promise<unknown>][];
  const calls = methods.map(([name, method]) => [name, (...args: unknown[]) => call(() => method(...args))] as const);
  return Object.fromEntries(calls) as unknown as Part;
}
