/** Claims: starts due jobs for a session. Only the session's lanes are scanned, each through an index on (priority,
 *  run_at), so jobs of other kinds and jobs in backoff cost nothing, however many there are. */
import { ALONE_MS } from "../../core/decision/evidence.ts";
import { startedText } from "../../core/job/lifecycle.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { InternedValues } from "../job-row.ts";
import type { LaneWindow } from "../lane.ts";
import {
  fitting,
  freeCapacity,
  heavyShares,
  howMany,
  type LaneShare,
  LaneTurns,
  lightShare,
  type SessionLanes,
} from "../lane-fairness.ts";
import {
  claimedJob,
  DEAD,
  firstAnswer,
  NEXT_WINDOW_MS,
  noJobs,
  ROOM_CHECK_MS,
  refusedClaim,
  repeatedAnswer,
  SuspectTrials,
} from "../plan/claim.ts";
import type { ClaimAnswer, ClaimRequest } from "../store.ts";
import { MAX_STARTED, type StartedJob, type StoredJob } from "../stored-job.ts";
import { admission, byLine, holdKeeper, type PostgresAdmitted } from "./admission.ts";
import { bigints, ints } from "./arrays.ts";
import {
  BESIDE,
  DUE_LANES,
  type DueSuspect,
  IDLE,
  inLine,
  isCovered,
  isRare,
  START_MANY,
  START_ONE,
  START_OTHERS,
  START_SUSPECT,
  SUSPECTS_FIRST,
  startOf,
  toStarted,
} from "./claim-statements.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow, PgStatement, PgValue } from "./driver.ts";
import { laneFinder } from "./lanes.ts";
import { COLUMN_COUNT, JOB_COLUMNS, learnRows, toJob } from "./rows.ts";
import type { ReadSessionFacts, SessionFacts } from "./sessions.ts";

/** Far fewer than the events of a batch (events.ts). */
const MAX_CLAIM = 1_000;

/** The lanes that a claim scans. */
interface PostgresClaimScan {
  readonly lanes: SessionLanes;
  readonly light: LaneWindow;
  /** Null: the session has no lanes with jobs that need cpu or memory. */
  readonly heavy: LaneWindow | null;
  readonly shares: readonly LaneShare[];
}

/** One share of a claim. */
interface ClaimCall {
  readonly facts: SessionFacts;
  readonly lanes: SessionLanes;
  readonly share: LaneShare;
  readonly request: ClaimRequest;
  readonly now: number;
}

/** Takes due jobs of one share; null if there are none. */
type ClaimPath = (call: ClaimCall) => Promise<ClaimAnswer | null>;

/** What a claim id got before, and the number of this reply; `delivery` is null for the first. */
interface EarlierClaim {
  readonly drain: boolean;
  readonly delivery: number | null;
  readonly held: PgRow[];
}

/** Index of the limit in the values of a statement that starts jobs. */
const LIMIT_VALUE = 5;

export function claimVerb(context: PostgresContext, sessionFacts: ReadSessionFacts) {
  const { db, sql, interned, started, marks, clock, generation, wrote } = context;
  const { lanesOf, windowOf, moveOn } = laneFinder(context);
  const holds = holdKeeper(context);
  const turns = new LaneTurns();
  const admit = admission(context);
  const startOne = sql("claim_one", START_ONE);
  const startMany = sql("claim", START_MANY);
  const startOthers = sql("claim_others", START_OTHERS);
  const startSuspect = sql("claim_suspect", START_SUSPECT);
  const suspectsFirst = sql("claim_suspects", SUSPECTS_FIRST);
  // Other claims of this session wait until it is decided whether it must run a suspect alone.
  const lockAlone = sql("claim_lock_alone", "select 1 from $s.session where no = $1 for update");
  const holdsAny = sql("claim_holds", "select 1 from $s.job where state = 1 and session = $1 limit 1");
  const tryAlone = sql("claim_alone", "update $s.session set alone_until = $2 where no = $1");
  const trials = new SuspectTrials();
  const idle = sql("claim_idle", IDLE);
  const dueIn = sql("claim_due", DUE_LANES);
  const lock = sql(
    "claim_lock",
    `select draining_at is not null from $s.session where no = $1 and reaped = 0 and ended_at is null
     for no key update`,
  );
  const recall = sql(
    "claim_recall",
    `update $s.claim set deliveries = deliveries + 1 where session = $1 and claim_id = $2 returning jobs, deliveries`,
  );
  const remember = sql("claim_remember", "insert into $s.claim (session, claim_id, at, jobs) values ($1, $2, $3, $4)");
  const forget = sql("claim_forget", "delete from $s.claim where session = $1 and at < $2");
  const readAgain = sql(
    "claim_again",
    `select ${JOB_COLUMNS}, ${BESIDE} from $s.job j join $s.submission b on b.job = j.no
     where j.no = any ($1::bigint[]) order by j.priority, j.run_at, j.no`,
  );

  async function claimOne(requested: ClaimRequest, now: number): Promise<ClaimAnswer> {
    const request = { ...requested, limit: Math.min(requested.limit, MAX_CLAIM) };
    const facts = await sessionFacts(request.session);
    if (facts === null) return DEAD;
    if (request.last && request.claimId !== null) return closeClaim(facts, request.claimId, now);
    let isPlain = true;
    for (let round = 0; ; round++) {
      const { lanes: mine, light, heavy, shares } = await sightOf(facts, request, now);
      const goOn = () => {
        moveOn(facts, "light", light);
        if (heavy !== null) moveOn(facts, "heavy", heavy);
      };
      const plain = (call: ClaimCall) =>
        take(call.share.lanes.length === 1 && heavy === null ? startOne : startMany, call);
      for (const [way, share] of waysThrough(shares, isPlain ? plain : null, trials.othersFirst(facts.no, now))) {
        const answer = await way({ facts, lanes: mine, share, request, now });
        if (answer === null) continue;
        goOn();
        return answer;
      }
      const lanes = heavy === null ? light.lanes : [...light.lanes, ...heavy.lanes];
      const [row] = await db.read(idle, [facts.no, now, facts.leaseMs, ints(lanes)]);
      const [alive, inTime, lastLane, nextAt, suspects, drain, aloneUntil = null] = row ?? [false];
      const state = { isOver: alive !== true, isDraining: drain === true, isLate: inTime !== true };
      const refused = refusedClaim({ ...state, aloneUntil: aloneUntil as number | null }, now);
      if (refused !== null) return refused;
      if (Number(lastLane) > interned.lastLane && round === 0) {
        await interned.readLanes();
        continue;
      }
      if (suspects === true && isPlain) {
        isPlain = false;
        continue;
      }
      goOn();
      return noJobs(light.partial || heavy?.partial ? now + NEXT_WINDOW_MS : (nextAt as number | null));
    }
  }

  /** The ways to claim from a share, in order. */
  function waysThrough(
    shares: readonly LaneShare[],
    plain: ClaimPath | null,
    othersFirst: boolean,
  ): [ClaimPath, LaneShare][] {
    const ways = plain !== null ? [plain] : othersFirst ? [takeOthers, takeSuspect] : [takeSuspect];
    return ways.flatMap((way) => shares.map((share): [ClaimPath, LaneShare] => [way, share]));
  }

  async function sightOf(facts: SessionFacts, request: ClaimRequest, now: number): Promise<PostgresClaimScan> {
    const lanes = await lanesOf(facts);
    const light = await windowOf(facts, lanes.light, "light", request.limit);
    const first = lightShare(light.lanes, request);
    if (lanes.heavy.size === 0) return { lanes, light, heavy: null, shares: [first] };
    const room = freeCapacity(lanes, await holds.taken(facts), request);
    const heavy = await windowOf(facts, fitting(lanes, room), "heavy", request.limit);
    // Each share takes a statement of its own: only shares with due jobs are tried.
    const values = [facts.no, now, facts.leaseMs, ints(heavy.lanes)];
    const due = heavy.lanes.length === 0 ? [] : await db.read(dueIn, values);
    const chosen = due.map(([lane]) => lane as number);
    const shares = turns.order(facts.no, [first, ...heavyShares(lanes, chosen, request.limit, room)]);
    return { lanes, light, heavy, shares };
  }

  /** When suspects are due. A poison job takes down everything beside it; which job it was shows only when it runs
   *  alone. So a suspect that is first in line goes to an idle session, which gets no other jobs meanwhile. */
  async function takeSuspect(call: ClaimCall): Promise<ClaimAnswer | null> {
    const { facts, share, now } = call;
    const found = await db.read(suspectsFirst, [facts.no, now, facts.leaseMs, ints(share.lanes)]);
    const seen = found.flatMap(([no, isBusy]) => (isBusy === true ? [no as number] : []));
    trials.saw(seen, now);
    for (const [no, isBusy] of found) {
      const suspect = no as number;
      const turn = isBusy === true ? trials.turn(suspect, facts.no, now) : "take";
      if (turn === "wait") return noJobs(now + ROOM_CHECK_MS);
      if (turn === "leave") continue;
      trials.taken(suspect);
      const answer = await take(startSuspect, call, { no: suspect, beside: isBusy === true });
      if (answer === null) continue; // another session took it
      trials.tries(facts.no, now);
      return answer;
    }
    return takeOthers(call);
  }

  const takeOthers = (call: ClaimCall) => take(startOthers, call);

  /** Null: there was nothing to take. */
  async function take(
    statement: PgStatement,
    call: ClaimCall,
    suspect: DueSuspect | null = null,
  ): Promise<ClaimAnswer | null> {
    const { facts, share, now } = call;
    const { claimId } = call.request;
    const { lanes, limit } = share;
    if (lanes.length === 0 && claimId === null) return null;
    const { marks: from, whole } = marks.of(lanes, clock.monotonic());
    const [before, after] = startedText(facts.id, facts.name)(0).split('"attempt":0') as [string, string];
    const values: PgValue[] = [facts.no, now, facts.leaseMs, ints(lanes), bigints(from), limit];
    values.push(`${before}"attempt":`, after);
    if (suspect !== null) values.push(suspect.no);
    if (claimId !== null || share.needs !== null || suspect !== null) {
      return takeLocked(statement, call, values, suspect);
    }
    const began = clock.monotonic();
    const rows = await db.write(statement, values);
    if (whole) marks.scannedWhole(clock.monotonic() - began);
    if (!rows.some(isCovered)) return rows.length === 0 ? null : answerOf(call, { rows });
    const covered = rows.filter(isCovered).map(([no]) => no as number);
    const eventParts = [values[6], values[7]] as [PgValue, PgValue];
    const admitted = await db.transaction((connection) => admit(connection, facts.no, covered, now, eventParts));
    return answerOf(call, { rows: rows.filter((row) => !isCovered(row)), ...admitted });
  }

  /** Null: other claims took all of them first. */
  async function answerOf(
    { facts, share, request, now }: ClaimCall,
    { rows, begun = [], overBudget = [] }: { rows: PgRow[] } & Partial<PostgresAdmitted>,
  ): Promise<ClaimAnswer | null> {
    if (rows.length + begun.length + overBudget.length === 0) return null;
    const covered = begun.map(([no]) => no);
    const jobs = await startedJobs(facts, share, rows, covered, now);
    return firstAnswer(request, jobs, overBudget);
  }

  /** A claim with an id is stored with its jobs under the session's lock, so that a repeat finds it. One that needs cpu
   *  or memory holds the lock of its host. */
  async function takeLocked(
    statement: PgStatement,
    call: ClaimCall,
    values: PgValue[],
    suspect: DueSuspect | null,
  ): Promise<ClaimAnswer | null> {
    const { facts, lanes, share, request, now } = call;
    const { claimId } = request;
    const rows = await db.transaction(
      async (connection) => {
        if (claimId !== null) {
          const earlier = await earlierClaim(connection, facts, claimId);
          if (earlier === null) return { begun: [], admitted: null };
          if (earlier.delivery !== null) return { earlier };
        }
        if (suspect !== null) {
          await connection.ask(lockAlone, [facts.no]);
          const isBusy = (await connection.ask(holdsAny, [facts.no])).length > 0;
          if (isBusy && !suspect.beside) return { begun: [], admitted: null };
        }
        if (share.needs !== null) {
          const room = freeCapacity(lanes, await holds.lockedTaken(connection, facts), request);
          const limit = Math.min(share.limit, howMany(share.needs, room));
          if (limit === 0) return { begun: [], admitted: null };
          values[LIMIT_VALUE] = limit;
        }
        const found = await connection.ask(statement, values);
        const begun = found.filter((row) => !isCovered(row));
        const covered = found.filter(isCovered).map(([no]) => no as number);
        const eventParts = [values[6], values[7]] as [PgValue, PgValue];
        const admitted = covered.length === 0 ? null : await admit(connection, facts.no, covered, now, eventParts);
        const starts = [...begun.map(startOf), ...(admitted?.begun ?? [])];
        if (share.needs !== null && starts.length > 0) {
          await holds.hold(connection, facts, starts, share.needs);
        }
        if (suspect !== null && starts.length > 0) await connection.ask(tryAlone, [facts.no, now + ALONE_MS]);
        if (claimId !== null && starts.length > 0) {
          await connection.ask(forget, [facts.no, now - facts.leaseMs]);
          await connection.ask(remember, [facts.no, claimId, now, JSON.stringify(starts)]);
        }
        return { begun, admitted };
      },
      { repeat: claimId !== null },
    );
    if (rows.earlier !== undefined) return handOverAgain(facts, rows.earlier);
    return answerOf(call, { rows: rows.begun, ...rows.admitted });
  }

  /** Closes this claim id: returns what it got before, and nothing more is claimed under it. */
  async function closeClaim(facts: SessionFacts, claimId: string, now: number): Promise<ClaimAnswer> {
    const found = await db.transaction(
      async (connection) => {
        const earlier = await earlierClaim(connection, facts, claimId);
        if (earlier === null || earlier.delivery !== null) return earlier;
        await connection.ask(remember, [facts.no, claimId, now, "[]"]);
        return { ...earlier, delivery: 1 };
      },
      { repeat: true },
    );
    return found === null ? DEAD : handOverAgain(facts, found);
  }

  /** What this id got before, under the session's lock; null if the session has ended. */
  async function earlierClaim(
    connection: PgConnection,
    facts: SessionFacts,
    claimId: string,
  ): Promise<EarlierClaim | null> {
    const [[draining] = []] = await connection.ask(lock, [facts.no]);
    if (draining === undefined) return null;
    const drain = draining === true;
    const [earlier] = await connection.ask(recall, [facts.no, claimId]);
    if (earlier === undefined) return { drain, delivery: null, held: [] };
    const [text, delivery] = earlier as [string, number];
    return { drain, delivery, held: await stillHeld(connection, facts, text) };
  }

  async function handOverAgain(facts: SessionFacts, earlier: EarlierClaim): Promise<ClaimAnswer> {
    const { drain, delivery, held } = earlier;
    const names = await learnRows(interned, held);
    const jobs = held.map((row) => claimedJob(generation, facts.id, toWhole(row, names)));
    return repeatedAnswer(drain, jobs, delivery);
  }

  /** The jobs of an earlier claim whose reply was lost, as far as the session still holds them. */
  async function stillHeld(connection: PgConnection, facts: SessionFacts, text: string): Promise<PgRow[]> {
    const held = new Map(JSON.parse(text) as [number, number][]);
    const rows = await connection.ask(readAgain, [bigints([...held.keys()])]);
    return rows.filter((row) => row[5] === 1 && row[18] === facts.no && row[9] === held.get(row[0] as number));
  }

  /** `covered`: the numbers of jobs that were started because their budgets allow it. */
  async function startedJobs(
    facts: SessionFacts,
    share: LaneShare,
    rows: PgRow[],
    covered: readonly number[],
    now: number,
  ): Promise<ClaimedJob[]> {
    turns.taken(facts.no, share);
    const policies = rows.map((row) => row[3] as number);
    const names = await interned.learn(
      rows.map((row) => row[2] as number),
      policies,
      [],
    );
    const rare = rows.filter(isRare);
    const whole = rare.length === 0 ? [] : await readWhole(rare.map((row) => row[0] as number));
    rows.sort(inLine);
    const jobs = rows.map((row): StartedClaim => {
      const one = isRare(row) ? whole.find(({ job }) => job.no === row[0]) : undefined;
      const begun = one ?? toStarted(row, names, facts, now);
      const { job } = begun;
      if (started.size >= MAX_STARTED) started.clear();
      started.set(job.id, job);
      marks.taken(job.lane, job.priority, job.runAt, now);
      return { job, claimed: claimedJob(generation, facts.id, begun) };
    });
    // Their ends change ledgers too, so they cannot be settled without being read.
    for (const one of covered.length === 0 ? [] : await readWhole(covered)) {
      marks.taken(one.job.lane, one.job.priority, one.job.runAt, now);
      jobs.push({ job: one.job, claimed: claimedJob(generation, facts.id, one) });
    }
    if (covered.length > 0) jobs.sort((a, b) => byLine(a.job, b.job));
    wrote();
    return jobs.map(({ claimed }) => claimed);
  }

  async function readWhole(numbers: readonly number[]): Promise<StartedJob[]> {
    const rows = await db.read(readAgain, [bigints(numbers)]);
    const names = await learnRows(interned, rows);
    return rows.map((row) => toWhole(row, names));
  }

  const toWhole = (row: PgRow, names: InternedValues): StartedJob => ({
    job: toJob(row, names),
    payload: row[COLUMN_COUNT] as string,
    previous: row[COLUMN_COUNT + 1] as string | null,
  });

  return (requests: readonly ClaimRequest[], now: number) =>
    Promise.all(requests.map((request) => claimOne(request, now)));
}

interface StartedClaim {
  readonly job: StoredJob;
  readonly claimed: ClaimedJob;
}
