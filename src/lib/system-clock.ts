/** The system clock, with the event loop functions as they were when this module was loaded: a test that fakes timers
 *  afterwards (Vitest, Jest, sinon) does not stop a store in use. Node only; the client, which also runs in browsers,
 *  uses `system-timers.ts`. */
import type { Clock, EventLoop } from "./clock.ts";
import { systemTimers } from "./system-timers.ts";

export const systemLoop: EventLoop = { turn: setImmediate, tick: process.nextTick };

export const systemClock: Clock = { ...systemTimers, ...systemLoop };
