/** Turns of the event loop as they were when this module was loaded: a test that fakes timers afterwards (Vitest, Jest,
 *  sinon) does not stop a store that is in use. */

/** Calls in the next turn of the event loop. */
export const inNextTurn: (call: () => void) => void = setImmediate;

/** Calls when the code that runs now has returned, before anything else. */
export const inNextTick: (call: () => void) => void = process.nextTick;

/** Resolves in the next turn of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => inNextTurn(resolve));
}
