/** The commands that lists consist of. Each draws its actions from a separate seed, given what happened so far; so any
 *  command can be removed from a list and the others remain meaningful. A command makes calls, each on both stores, and
 *  may use the answer they agreed on. */
import type { Command } from "../../src/core/job/command.ts";
import type { NewSession, Report } from "../../src/core/worker-protocol.ts";
import {
  decideAt,
  decideCommandAt,
  LEASE,
  overdue,
  placeOf,
  reaped,
  released,
  reportOf,
  usageOf,
  waiting,
} from "../../src/store/conformance/kit.ts";
import type { ClaimAnswer, ClaimRequest, ExpiredJob, JobFilter } from "../../src/store/store.ts";
import { Dice } from "../dice.ts";
import * as draw from "./jobs.ts";
import { type Both, byId, byName, type Run, type World } from "./world.ts";

export interface Step {
  readonly name: keyof typeof COMMANDS;
  readonly seed: number;
}

const insert: Run = (world, dice, both) => {
  const again = () => (dice.chance(0.15) ? dice.pick(world.jobs.filter((job) => job.key !== null)) : undefined);
  const jobs = dice.times(1 + dice.below(4), () => {
    const repeated = again();
    const fresh = draw.drawJob(dice, world.now, world.parents);
    return repeated === undefined ? fresh : { ...repeated, id: fresh.id };
  });
  world.jobs.push(...jobs);
  return both("insert", jobs, (store) => store.insert(jobs, world.now));
};

const open: Run = (world, dice, both) => {
  const session = draw.drawSession(dice);
  world.sessions.push(session);
  return both("openSession", session, (store) => store.sessions.open(session, world.now));
};

const close: Run = (world, dice, both) => {
  const id = world.anySession(dice);
  const why = dice.pick(["stopped", "gone"] as const);
  return both("closeSession", { id, why }, (store) => store.sessions.close(id, world.now, why));
};

const claim: Run = async (world, dice, both) => {
  const earlier = dice.chance(0.15) ? dice.pick(world.claims) : undefined;
  const request = earlier ?? {
    session: world.anySession(dice),
    limit: 1 + dice.below(5),
    claimId: dice.chance(0.4) ? `claim-${world.claims.length}` : null,
    ...roomOf(dice),
  };
  if (request.claimId !== null) world.claims.push(request);
  await claimFor(world, request, both);
};

function roomOf(dice: Dice): Pick<ClaimRequest, "room"> {
  const room = draw.drawRoom(dice);
  return room === undefined ? {} : { room };
}

async function claimFor(world: World, request: ClaimRequest, both: Both): Promise<void> {
  const [answer] = await both("claim", request, (store) => store.claim([request], world.now));
  for (const job of (answer as ClaimAnswer).jobs) world.held.push({ job, session: request.session });
}

const renew: Run = async (world, dice, both) => {
  const session = world.anySession(dice);
  const mine = world.held.filter((one) => one.session === session || dice.chance(0.05));
  const held = dice.some(mine.slice(-6), 0.7).map(({ job }) => ({
    ...placeOf(job),
    ...{ usage: draw.drawUsage(dice), progress: draw.drawProgress(dice), log: draw.drawLog(dice) },
  }));
  const request = { session, held, unheardAfterMs: dice.pick([0, 5_000, LEASE]) };
  const [answer] = await both("renew", request, async (store) =>
    (await store.renew([request], world.now)).map((one) => ({ ...one, unheard: byId(one.unheard) })),
  );
  if (answer === undefined || dice.chance(0.3)) return;
  await settleAll(
    world,
    answer.unheard.map((place) => released(place, session)),
    both,
  );
};

function settleAll(world: World, reports: readonly Report[], both: Both) {
  return both("settle", reports, (store) => store.settle(reports, world.now, decideAt(world.now)));
}

function drawReport(world: World, dice: Dice): Report | undefined {
  if (dice.chance(0.1)) {
    const earlier = dice.pick(world.reports);
    if (earlier !== undefined) return dice.chance(0.7) ? earlier : { ...earlier, outcome: draw.drawOutcome(dice) };
  }
  const one = world.anyHeld(dice);
  if (one === undefined) return undefined;
  const { job, session } = one;
  if (dice.chance(0.08)) return released(placeOf(job), dice.chance(0.7) ? session : world.anySession(dice));
  if (dice.chance(0.08)) return reaped(placeOf(job));
  const report: Report = {
    ...reportOf(job, dice.chance(0.15) ? waiting(dice.some(world.ids.slice(-4), 0.3)) : draw.drawOutcome(dice), {
      reportId: `report-${dice.below(1_000_000)}`,
      usage: draw.drawUsage(dice),
      log: draw.drawLog(dice),
      ...(dice.chance(0.04) ? { token: `${job.token}x` } : {}),
      ...(dice.chance(0.04) ? { attempt: job.attempt + dice.below(3) - 1 } : {}),
    }),
    progress: draw.drawProgress(dice),
  };
  world.reports.push(report);
  return dice.chance(0.02) ? { ...report, jobId: "job_unknown" } : report;
}

const settle: Run = (world, dice, both) => {
  const drawn = dice.times(1 + dice.below(3), () => drawReport(world, dice));
  return settleAll(
    world,
    drawn.filter((report) => report !== undefined),
    both,
  );
};

/** What an engine does each second, sometimes with wrong knowledge of who is late. */
const sweep: Run = async (world, dice, both) => {
  const query = { now: world.now, limit: 1_000 };
  const found = await both("expired", query, async (store) => byId(await store.expired(query)));
  const reports = found.map((job: ExpiredJob) => (job.why === "lost" ? reaped(job) : overdue(job, job.why)));
  const guess = dice.pick(world.jobs);
  if (guess !== undefined && dice.chance(0.3)) reports.push(overdue({ jobId: guess.id, attempt: dice.below(2) }));
  await settleAll(world, reports, both);
};

/** The process of a session with jobs has exited, and another replaces it. */
const crash: Run = async (world, dice, both) => {
  const id = world.anyHeld(dice)?.session;
  const old = world.sessions.find((session) => session.id === id);
  if (id === undefined || old === undefined) return;
  await both("closeSession", { id, why: "gone" }, (store) => store.sessions.close(id, world.now, "gone"));
  await sweep(world, dice, both);
  const next: NewSession = { ...old, id: draw.drawSession(dice).id };
  world.sessions.push(next);
  await both("openSession", next, (store) => store.sessions.open(next, world.now));
  await claimFor(world, { session: next.id, limit: 1 + dice.below(5), claimId: null }, both);
};

const amend: Run = (world, dice, both) => {
  const commands = dice.times(1 + dice.below(3), () => {
    const kind = dice.pick(["cancel", "cancel", "retry", "redrive", "redrive", "discard", "reschedule"] as const);
    const by = dice.chance(0.3) ? "somebody" : null;
    const runAt = world.now + dice.below(8_000) - 2_000;
    const command: Command = kind === "reschedule" ? { kind, runAt, by } : { kind, by };
    const jobId = dice.chance(0.3) ? dice.pick(world.parents) : undefined;
    return { jobId: jobId ?? world.anyId(dice), command };
  });
  return both("amend", commands, (store) => store.amend(commands, world.now, decideCommandAt(world.now)));
};

/** What an engine does for blocked jobs, sometimes with wrong knowledge. */
const unblock: Run = async (world, dice, both) => {
  const query = { parents: dice.chance(0.5) ? null : dice.some(world.ids.slice(-9)), limit: 1_000 };
  const found = await both("unblockable", query, async (store) => byId((await store.children.unblockable(query)).jobs));
  const guess = { jobId: world.anyId(dice), attempt: 1 + dice.below(2) };
  const runAt = world.now + dice.below(2_000);
  const commands = [...found, ...(dice.chance(0.3) ? [guess] : [])].map(({ jobId, attempt }) => ({
    jobId,
    command: { kind: "unblock", attempt, runAt } as const,
  }));
  return both("amend", commands, (store) => store.amend(commands, world.now, decideCommandAt(world.now)));
};

/** Passes cancels on to children, or only reports to have done so. */
const cascade: Run = async (world, dice, both) => {
  const found = await both("cascades", null, async (store) => (await store.children.cascades(1_000)).sort());
  for (const parentId of found) {
    const isHonest = dice.chance(0.7);
    await both("cascaded", { parentId, isHonest }, async (store) => {
      const { jobs } = await store.find({ parentId, state: ["queued", "running", "blocked"] });
      const commands = jobs.map(({ id }) => ({ jobId: id, command: { kind: "cancel" } as const }));
      if (isHonest) await store.amend(commands, world.now, decideCommandAt(world.now));
      await store.children.cascaded(parentId);
      return (await store.children.cascades(1_000)).includes(parentId);
    });
  }
};

const usage: Run = (world, dice, both) => {
  const jobId = world.anyHeld(dice)?.job.id ?? world.anyId(dice);
  const told = { jobId, attempt: 1 + dice.below(2), usage: draw.drawUsage(dice) ?? usageOf(1) };
  return both("setUsage", told, (store) => store.setUsage(told.jobId, told.attempt, told.usage));
};

const pause: Run = (world, dice, both) => {
  const [namespace, queue, paused] = [dice.pick(draw.NAMESPACES), dice.pick(draw.QUEUES), dice.chance(0.5)];
  return both("setPaused", { namespace, queue, paused }, (store) =>
    store.queues.setPaused(namespace, queue, paused, world.now),
  );
};

const beat: Run = (world, dice, both) => {
  const clockJumpMs = dice.chance(0.1) ? dice.pick([-60_000, 60_000, 2_000]) : 0;
  const { now } = world;
  const given = { maxGapMs: 3_000, holdMs: dice.pick([2_000, LEASE]), clockJumpMs, engine: "engine-1" };
  return both("beat", { ...given, now }, (store) => store.beat({ ...given, time: () => ({ now }) }));
};

const tick: Run = async (world, dice, both) => {
  const ms = dice.pick([1, 100, 500, 1_000, 1_000, 2_500, 4_000, dice.pick([20_000, 40_000, -10_000])]);
  world.now += ms;
  await both("tick", ms, async () => null);
};

const prune: Run = (world, dice, both) => {
  const before = () => (dice.chance(0.5) ? world.now + 1 : world.now - dice.below(20_000));
  const all = dice.chance(0.6);
  const query = {
    now: world.now,
    endedBefore: { succeeded: before(), failed: before(), ...(dice.chance(0.5) ? { cancelled: before() } : {}) },
    keyWindowMs: dice.pick([1, 5_000, 600_000, 600_000]),
    // Few jobs at a time, or all: how many other rows are deleted at a time may differ between stores.
    sessionsEndedBefore: all ? before() : 0,
    limit: all ? 1_000 : 1 + dice.below(3),
  };
  return both("prune", query, (store) => store.prune(query));
};

const find: Run = (world, dice, both) => {
  const filter: JobFilter = { ...draw.drawFilter(dice, world.now, world.parents), limit: 1 + dice.below(4) };
  const pages = 1 + dice.below(4);
  return both("find", { filter, pages }, async (store) => {
    const ids: string[][] = [];
    for (let cursor: string | null | undefined; ids.length < pages && cursor !== null; ) {
      const page = await store.find(cursor === undefined ? filter : { ...filter, cursor });
      ids.push(page.jobs.map((job) => job.id));
      cursor = page.next;
    }
    return ids;
  });
};

const look: Run = (world, dice, both) => {
  const ids = dice.times(3, () => world.anyId(dice));
  const sessions = world.sessions.slice(-3).map((session) => session.id);
  const namespace = dice.chance(0.5) ? "default" : null;
  return both("look", { ids, sessions, namespace }, async (store) => ({
    jobs: await store.jobs(ids),
    ended: (await store.ended(ids)).sort(),
    cancels: byId(await store.sessions.cancelsFor(sessions)),
    open: byName(await store.sessions.listOpen()),
    counts: await store.queues.counts(namespace, world.now),
  }));
};

const COMMANDS = {
  insert,
  open,
  close,
  crash,
  claim,
  renew,
  settle,
  sweep,
  amend,
  unblock,
  cascade,
  usage,
  pause,
  beat,
  tick,
  prune,
  find,
  look,
};

/** Relative frequency of each command. */
const SHARES: Readonly<Record<keyof typeof COMMANDS, number>> = {
  ...{ insert: 13, open: 4, close: 2, crash: 4, claim: 17, renew: 6, settle: 18, sweep: 5, amend: 7 },
  ...{ unblock: 4, cascade: 2, usage: 2, pause: 2, beat: 4, tick: 10, prune: 3, find: 3, look: 2 },
};
const DRAWN = Object.entries(SHARES).flatMap(([name, share]) => new Array(share).fill(name) as Step["name"][]);

/** The list of a seed: 30 to 60 commands, after a few that create jobs for the others. */
export function listOf(seed: number): Step[] {
  const dice = new Dice(seed);
  const names: Step["name"][] = ["open", "insert", "open", "insert"];
  names.push(...dice.times(26 + dice.below(31), () => dice.pick(DRAWN) as Step["name"]));
  return names.map((name) => ({ name, seed: dice.below(2 ** 31) }));
}

export async function runStep({ name, seed }: Step, world: World, both: Both): Promise<void> {
  await COMMANDS[name](world, new Dice(seed), both);
}
