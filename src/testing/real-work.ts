/** Real work beside virtual time: counted calls of the store and of files, and the sockets, processes and timers of
 *  Node that a handler waits for. Work of Node's thread pool has no name and is not seen. */

// Counts the calls of a store, or of files, so that a test can wait until nothing is under way.

/** The same object, with a count of the calls that have not been answered. */
export function counted<T extends object>(port: T, calls: { underWay: number }): T {
  return new Proxy(port, {
    get(target, property, receiver) {
      const verb: unknown = Reflect.get(target, property, receiver);
      if (typeof verb === "object" && verb !== null) return counted(verb, calls); // a part of it, such as the sessions of a store
      if (typeof verb !== "function") return verb;
      return (...args: unknown[]) => {
        const answer: unknown = verb.apply(target, args);
        if (!(answer instanceof Promise)) return answer;
        calls.underWay += 1;
        const done = () => {
          calls.underWay -= 1;
        };
        answer.then(done, done);
        return answer;
      };
    },
  });
}

// Real work beside virtual time: files, sockets, processes and timers of Node that a handler waits for. Node names
// what keeps its event loop alive; what was there before does not count. What Node does not name: work of its thread
// pool (crypto, zlib), and timers that were unreferenced. It only counts them: where one of somebody else ends in the
// very moment in which one of a handler begins, or while it waits, that of the handler is not seen.

/** As they were when this module was loaded: a test may fake them later. */
const { setTimeout: realTimeout } = globalThis;

let ownTimers = 0;

/** Resolves after so many milliseconds of real time. Keeps the process alive, and does not count as work. */
export function realSleep(ms: number): Promise<void> {
  ownTimers += 1;
  return new Promise((resolve) => {
    realTimeout(() => {
      ownTimers -= 1;
      resolve();
    }, ms);
  });
}

/** Whether the timers of this process are not Node's own now, as under `vi.useFakeTimers()`. */
export function areTimersFaked(): boolean {
  return globalThis.setTimeout !== realTimeout || wereTimersFaked();
}

/** The same of when the library was loaded. Then it has no timers to work with. */
export function wereTimersFaked(): boolean {
  return Object.hasOwn(realTimeout, "clock");
}

export class RealWork {
  #known = counts();

  /** What there is now is no work of a handler. */
  ignoreAll(): void {
    this.#known = counts();
  }

  /** The names of what came since, as Node calls them. Of those that were there before, whichever have ended at a look
   *  are forgotten. If one ends and another begins between two looks, the count is the same: look often. */
  current(): string[] {
    const now = counts();
    for (const [name, count] of this.#known) this.#known.set(name, Math.min(count, now.get(name) ?? 0));
    return [...now].filter(([name, count]) => count > (this.#known.get(name) ?? 0)).map(([name]) => name);
  }
}

function counts(): Map<string, number> {
  const found = new Map([["Timeout", -ownTimers]]);
  for (const name of process.getActiveResourcesInfo()) found.set(name, (found.get(name) ?? 0) + 1);
  return found;
}
