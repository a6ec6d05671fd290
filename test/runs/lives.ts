/** An engine that dies after a given number of writes, in virtual time and without a process: its store answers nothing any more,
 *  and nothing that it wrote is lost. The next life begins on the same database when the first has ended. Hundreds of crash points
 *  take seconds; what only a killed process shows is in `crash-points.test.ts`, too. */
import type { PlaybooksApi } from "../../src/core/api/playbooks.ts";
import type { RunsApi } from "../../src/core/api/runs.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { systemLoop } from "../../src/lib/system-clock.ts";
import type { Store } from "../../src/store/store.ts";
import { counted } from "../../src/testing/real-work.ts";
import { VIRTUAL_START, VirtualClock } from "../../src/testing/virtual-clock.ts";

/** Verbs that write, by their place in the port. Beats and renewals change no job. */
const WRITES = new Set(["insert", "claim", "settle", "amend", "advance", "savePlaybooks", "open", "cascaded"]);

export interface LifeOptions {
  readonly url: string;
  readonly startAt?: number;
  /** What its wall clock is off by; a test may change it while it lives. */
  readonly skew?: { ms: number };
  /** The number of the write after which it dies. */
  readonly diesAfter?: number;
}

export interface Life {
  readonly perdure: Perdure & RunsApi & PlaybooksApi;
  readonly clock: VirtualClock;
  /** Without the wrapper: it still answers when the engine is dead. */
  readonly store: Store;
  readonly isDead: boolean;
  /** So far. */
  readonly writes: number;
  /** Moves time until the answer is true, or the engine is dead. */
  until(answer: () => Promise<boolean>): Promise<void>;
  settled(): Promise<void>;
  /** Leaves it as it is: nothing is closed but the connection. */
  end(): Promise<void>;
}

const KEPT = { succeeded: false, failed: false, cancelled: false } as const;
const NEVER = new Promise<never>(() => {});
const MAX_MOVES = 20_000;

export async function openLife({
  url,
  startAt = VIRTUAL_START,
  diesAfter = 0,
  skew = { ms: 0 },
}: LifeOptions): Promise<Life> {
  const clock = new VirtualClock(startAt);
  const calls = { underWay: 0 };
  const life = { writes: 0, isDead: false };
  let raw: Store | undefined;
  const wrapStore = (store: Store) => {
    raw = store;
    return mortal(counted(store, calls), life, diesAfter);
  };
  const seen = {
    ...systemLoop,
    now: () => clock.now() + skew.ms,
    monotonic: clock.monotonic,
    after: clock.after.bind(clock),
  };
  const logger = (level: string, message: string) => {
    if (level === "error") throw new Error(message);
  };
  const open = Perdure.open as (...args: unknown[]) => Promise<Life["perdure"]>;
  const perdure = await open(
    { url, lease: "2s", retention: KEPT, logger },
    { clock: seen, random: () => 0.5, wrapStore },
  );
  const store = raw as unknown as Store;

  async function settled(): Promise<void> {
    for (let quiet = 0; quiet < 5; ) {
      await new Promise((resolve) => setImmediate(resolve));
      quiet = calls.underWay === 0 ? quiet + 1 : 0;
    }
  }

  return {
    ...{ perdure, clock, store, settled },
    get isDead() {
      return life.isDead;
    },
    get writes() {
      return life.writes;
    },
    async until(answer) {
      for (let moves = 0; moves < MAX_MOVES; moves++) {
        await settled();
        if (life.isDead || (await answer())) return;
        clock.moveTo(clock.nextAt() ?? clock.now() + 1_000);
      }
      throw new Error(`no end after ${MAX_MOVES} moves of the clock`);
    },
    async end() {
      life.isDead = true;
      await settled();
      await store.close();
    },
  };
}

/** Dies when a write has been stored, before its caller knows. */
function mortal<T extends object>(port: T, life: { writes: number; isDead: boolean }, diesAfter: number): T {
  return new Proxy(port, {
    get(target, property, receiver) {
      const verb: unknown = Reflect.get(target, property, receiver);
      if (typeof verb === "object" && verb !== null && !Array.isArray(verb)) return mortal(verb, life, diesAfter);
      if (typeof verb !== "function") return verb;
      return (...args: unknown[]) => {
        const answer: unknown = life.isDead ? NEVER : verb.apply(target, args);
        if (!(answer instanceof Promise)) return answer;
        return answer.then((value: unknown) => {
          if (life.isDead) return NEVER;
          if (WRITES.has(String(property)) && hasWritten(value) && ++life.writes === diesAfter) {
            life.isDead = true;
            return NEVER;
          }
          return value;
        });
      };
    },
  });
}

/** A claim that found nothing wrote nothing. */
function hasWritten(answer: unknown): boolean {
  const [first] = Array.isArray(answer) ? (answer as { jobs?: unknown[] }[]) : [];
  return first?.jobs === undefined || first.jobs.length > 0;
}
