/** Attempts of a job, numbered as the budgets count them: an attempt that was returned or that waits for children is
 *  not counted and keeps its number the next time; a redrive starts again at 1. Rules and conditions call this number
 *  `attempt` (`countedNumber` in `core/decision/classify.ts`). A job's own attempt number counts all attempts. */
import { countedNumber } from "../core/decision/classify.ts";
import type { JobEvent, JobEventBody } from "../core/job/event.ts";

/** Counted failures and losses. */
export interface Charged {
  readonly failures: number;
  readonly losses: number;
}

export interface NumberedEvent<E extends JobEventBody = JobEvent> {
  readonly event: E;
  /** The counted attempt that the event belongs to, from 1. */
  readonly attempt: number;
  /** The counted attempt that would follow it. */
  readonly next: number;
  readonly chapter: number;
  /** Since the last redrive, before this event. */
  readonly charged: Charged;
}

const NOTHING: Charged = { failures: 0, losses: 0 };

/** `events` are all events of a job, in order. */
export function counted<E extends JobEventBody>(events: readonly E[]): NumberedEvent<E>[] {
  let after = NOTHING;
  let chapter = 1;
  return events.map((event) => {
    const charged = after;
    if (event.name === "job.redriven") {
      after = NOTHING;
      chapter += 1;
    } else if ("counters" in event.data) {
      after = { ...charged, ...chargedIn(event.data.counters) };
    }
    return { event, attempt: countedNumber(charged), next: countedNumber(after), chapter, charged };
  });
}

/** Events have only the counters that changed. */
function chargedIn({ failures, losses }: Partial<Charged> = {}): Partial<Charged> {
  return { ...(failures === undefined ? {} : { failures }), ...(losses === undefined ? {} : { losses }) };
}

/** Counted before the last redrive. */
export function chargedBefore(events: readonly JobEventBody[]): Charged {
  const ends = counted(events).filter(({ event }) => event.name === "job.redriven");
  return ends.reduce(
    (sum, { charged }) => ({ failures: sum.failures + charged.failures, losses: sum.losses + charged.losses }),
    NOTHING,
  );
}
