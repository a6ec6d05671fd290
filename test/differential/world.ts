/** What commands work on: two stores that answer as one, and what is known from their answers so far. */
import type { ClaimedJob, NewSession, Report } from "../../src/core/worker-protocol.ts";
import { T0 } from "../../src/store/conformance/kit.ts";
import type { ClaimRequest, NewJob, Store } from "../../src/store/store.ts";
import type { Dice } from "../dice.ts";

/** Makes one call on both stores, and returns their common answer. */
export type Both = <T>(what: string, args: unknown, call: (store: Store) => Promise<T>) => Promise<T>;

/** What is known of the stores from their answers. */
export class World {
  now = T0;
  readonly jobs: NewJob[] = [];
  readonly sessions: NewSession[] = [];
  readonly claims: ClaimRequest[] = [];
  readonly held: { readonly job: ClaimedJob; readonly session: string }[] = [];
  readonly reports: Report[] = [];

  get ids(): string[] {
    return this.jobs.map((job) => job.id);
  }
  /** Few, so that they have several children. */
  get parents(): string[] {
    return this.ids.filter((_, i) => i % 3 === 0).slice(-4);
  }

  anyId(dice: Dice): string {
    return dice.chance(0.03) ? "job_unknown" : (dice.pick(this.jobs)?.id ?? "job_unknown");
  }
  /** Latest first: older ones have mostly ended. */
  anyHeld(dice: Dice) {
    return dice.chance(0.9) ? dice.pick(this.held.slice(-6)) : dice.pick(this.held);
  }
  anySession(dice: Dice): string {
    return dice.chance(0.02) ? "ses_unknown" : (dice.pick(this.sessions.slice(-5))?.id ?? "ses_unknown");
  }
}

/** What a command does. */
export type Run = (world: World, dice: Dice, both: Both) => Promise<unknown>;

export function byId<T extends { readonly jobId: string }>(list: readonly T[]): T[] {
  return list.toSorted((a, b) => (a.jobId < b.jobId ? -1 : 1));
}

export function byName<T extends { readonly id: string }>(list: readonly T[]): T[] {
  return list.toSorted((a, b) => (a.id < b.id ? -1 : 1));
}
