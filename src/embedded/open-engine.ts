/** Opens a store and creates its engine, for the embedded library and for a server. */
import { randomBytes, randomFillSync } from "node:crypto";
import { hostname } from "node:os";
import { Engine } from "../engine/engine.ts";
import type { EngineOptions, Log } from "../engine/parts.ts";
import { StoreState } from "../engine/store-state.ts";
import { type Clock, sleep } from "../lib/clock.ts";
import { idMaker } from "../lib/id.ts";
import { systemClock } from "../lib/system-clock.ts";
import type { Blobs } from "../store/blobs.ts";
import { openStore } from "../store/open.ts";
import type { Store } from "../store/store.ts";
import { hasEnded, isOfThisBoot, processName } from "../worker/process-proof.ts";
import { localClock, type MachineBoot, thisBoot, wallMark } from "./local-clock.ts";
import { playbookReader } from "./playbook-reader.ts";
import { storeClock } from "./store-clock.ts";

/** What tests replace, beside the options. */
export interface HostEnvironment {
  readonly clock: Clock;
  readonly random: () => number;
  /** The origin of this process's monotonic clock; left out where no other process shares it. */
  readonly boot?: MachineBoot | null;
  /** Wraps every call of the store. */
  readonly wrapStore?: (store: Store) => Store;
  /** Wraps the calls by which the engine itself deletes and lists files of attempts. */
  readonly wrapOutputs?: (outputs: Blobs) => Blobs;
}

export interface EngineSetup<Outputs extends Blobs = Blobs>
  extends Pick<EngineOptions, "leaseMs" | "reapEveryMs" | "retention" | "keyWindowMs" | "observer"> {
  readonly url: string | undefined;
  readonly schema: string | undefined;
  readonly connections: number | undefined;
  readonly log: Log;
  /** Step types of playbooks beside the built-in ones, with the kinds of their jobs. */
  readonly tools?: Readonly<Record<string, string>> | undefined;
  /** Where attempts leave their files; called when the store is open. */
  readonly outputs: (store: Store) => Outputs | Promise<Outputs>;
}

export interface OpenedEngine<Outputs extends Blobs = Blobs> {
  /** Not started yet. */
  readonly engine: Engine;
  readonly outputs: Outputs;
  /** Stops it and closes the store. */
  close(): Promise<void>;
}

/** A background round that waits for a silent server ends when the store is closed. */
const STOP_WAIT_MS = 5_000;

export async function openEngine<Outputs extends Blobs>(
  wish: EngineSetup<Outputs>,
  ambient?: HostEnvironment,
): Promise<OpenedEngine<Outputs>> {
  const {
    url,
    schema,
    connections,
    log,
    outputs: outputsOf,
    leaseMs,
    reapEveryMs,
    retention,
    keyWindowMs,
    observer,
    tools,
  } = wish;
  const { clock: base, random, boot = null, wrapStore, wrapOutputs } = ambient ?? hostEnvironmentOf(systemClock);
  const newSecret = () => randomBytes(24).toString("base64url");
  const mark = () => wallMark(base, boot);
  const report = (message: string) => log("error", message);
  const opened = await openStore({ url, schema, connections, clock: base, random, newSecret, report, mark });
  const wrapped = wrapStore === undefined ? opened : wrapStore(opened);
  try {
    const outputs = await outputsOf(wrapped);
    const storeState = new StoreState({ clock: base, log });
    const { clock, store, stop } = await sharedClock(base, wrapped, boot, { log, storeState });
    const newId = idMaker({ now: clock.now, randomBytes: (bytes) => randomFillSync(bytes) });
    const engine = new Engine({
      ...{ store, clock, random, newId, log, storeState, name: `${hostname()}-${process.pid}`, isGone: hasEnded },
      process: { host: hostname(), pid: process.pid, process: processName() },
      readPlaybook: playbookReader(tools),
      isOver: (other) => (isOfThisBoot(other) ? hasEnded(other) : null),
      outputs: wrapOutputs === undefined ? outputs : wrapOutputs(outputs),
      ...(retention === undefined ? {} : { retention }),
      ...(leaseMs === undefined ? {} : { leaseMs }),
      ...(reapEveryMs === undefined ? {} : { reapEveryMs }),
      ...(keyWindowMs === undefined ? {} : { keyWindowMs }),
      ...(observer === undefined ? {} : { observer }),
    });
    return { engine, outputs, close: () => closeEngine(engine, stop) };
  } catch (error) {
    await wrapped.close();
    throw error;
  }
}

/** The environment of a process, with a clock of this machine. */
export function hostEnvironmentOf(clock: Clock): HostEnvironment {
  return { clock, random: Math.random, boot: thisBoot(clock) };
}

/** The clock that all users of the store share: the store's own, or the time line that they keep together. */
async function sharedClock(
  base: Clock,
  store: Store,
  boot: MachineBoot | null,
  { log, storeState }: { readonly log: Log; readonly storeState: StoreState },
) {
  if (store.serverTime !== undefined) {
    const { clock, stop } = await storeClock(base, store, (error) => {
      if (!storeState.failed(error, "rounds")) log("warn", `cannot read the time of the store: ${String(error)}`);
    });
    return { clock, store, stop };
  }
  const { clock, beat } = await localClock(base, store, boot, log);
  return { clock, store: { ...store, beat }, stop: () => {} };
}

async function closeEngine(engine: Engine, stopClock: () => void): Promise<void> {
  const stopping = engine.stop();
  await Promise.race([stopping, sleep(engine.clock, STOP_WAIT_MS, { background: true })]);
  stopClock();
  await engine.store.close();
  engine.wake(); // and finds it closed
  await stopping;
}
