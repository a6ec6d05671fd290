/** Opens a store and puts an engine on it: what the embedded library and a server have in common. */
import { randomBytes, randomFillSync } from "node:crypto";
import { hostname } from "node:os";
import { systemClock } from "../engine/clock.ts";
import { Engine, type EngineOptions, type Log } from "../engine/engine.ts";
import { type Clock, sleep } from "../lib/clock.ts";
import { idMaker } from "../lib/id.ts";
import type { Blobs } from "../store/blobs.ts";
import { openStore } from "../store/open.ts";
import type { Store } from "../store/store.ts";
import { hasEnded } from "../worker/process-proof.ts";
import { storeClock } from "./store-clock.ts";

/** Outside the options: what tests replace. */
export interface Ambient {
  readonly clock: Clock;
  readonly random: () => number;
  /** Sees every call of the store. */
  readonly wrapStore?: (store: Store) => Store;
  /** Sees every call by which the engine itself deletes and lists files of attempts. */
  readonly wrapOutputs?: (outputs: Blobs) => Blobs;
}

export interface EngineWish<Outputs extends Blobs = Blobs>
  extends Pick<EngineOptions, "leaseMs" | "reapEveryMs" | "retention" | "keyWindowMs" | "onLost"> {
  readonly url: string | undefined;
  readonly schema: string | undefined;
  readonly connections: number | undefined;
  readonly log: Log;
  /** Where attempts leave their files, once the store is there to ask. */
  readonly outputs: (store: Store) => Outputs | Promise<Outputs>;
}

export interface OpenedEngine<Outputs extends Blobs = Blobs> {
  /** Not started yet. */
  readonly engine: Engine;
  readonly outputs: Outputs;
  /** Stops it and closes the store. */
  close(): Promise<void>;
}

/** A round that waits for a silent server ends when the store does. */
const STOP_WAIT_MS = 5_000;

export async function openEngine<Outputs extends Blobs>(
  wish: EngineWish<Outputs>,
  ambient?: Ambient,
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
    onLost,
  } = wish;
  const {
    clock: base,
    random,
    wrapStore,
    wrapOutputs,
  } = ambient ?? ({ clock: systemClock, random: Math.random } as Ambient);
  const newSecret = () => randomBytes(24).toString("base64url");
  const tell = (message: string) => log("error", message);
  const opened = await openStore({ url, schema, connections, clock: base, random, newSecret, tell });
  const store = wrapStore === undefined ? opened : wrapStore(opened);
  try {
    const outputs = await outputsOf(store);
    const shared = await storeClock(base, store, (message) => log("warn", message));
    const { clock } = shared;
    const newId = idMaker({ now: clock.now, randomBytes: (bytes) => randomFillSync(bytes) });
    const engine = new Engine({
      ...{ store, clock, random, newId, log, name: `${hostname()}-${process.pid}`, isGone: hasEnded },
      outputs: wrapOutputs === undefined ? outputs : wrapOutputs(outputs),
      ...(retention === undefined ? {} : { retention }),
      ...(leaseMs === undefined ? {} : { leaseMs }),
      ...(reapEveryMs === undefined ? {} : { reapEveryMs }),
      ...(keyWindowMs === undefined ? {} : { keyWindowMs }),
      ...(onLost === undefined ? {} : { onLost }),
    });
    return { engine, outputs, close: () => closeEngine(engine, shared.stop) };
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function closeEngine(engine: Engine, stopClock: () => void): Promise<void> {
  const stopping = engine.stop();
  await Promise.race([stopping, sleep(engine.clock, STOP_WAIT_MS, { background: true })]);
  stopClock();
  await engine.store.close();
  engine.wake(); // and finds it closed
  await stopping;
}
