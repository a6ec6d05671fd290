/** Real work beside virtual time: counts calls of the store and of files, and the sockets, processes and timers of Node
 *  that a handler waits for. Work of Node's thread pool is not visible. */

/** The same object; counts calls in progress, so that a test can wait until there are none. */
export function counted<T extends object>(port: T, calls: { underWay: number }): T {
  return new Proxy(port, {
    get(target, property, receiver) {
      const verb: unknown = Reflect.get(target, property, receiver);
      if (typeof verb === "object" && verb !== null) return counted(verb, calls); // a part, such as the sessions of a store
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

// Node reports what keeps its event loop alive; what existed before does not count. Not reported: work of its thread
// pool (crypto, zlib), and unreferenced timers. Only counts are compared: if foreign work ends at the moment when work
// of a handler starts, the latter is not seen.

/** As they were when this module was loaded: a test may fake them later. */
const { setTimeout: realTimeout } = globalThis;

let ownTimers = 0;

/** Resolves after this much real time. Keeps the process alive, and does not count as work. */
export function realSleep(ms: number): Promise<void> {
  ownTimers += 1;
  return new Promise((resolve) => {
    realTimeout(() => {
      ownTimers -= 1;
      resolve();
    }, ms);
  });
}

/** Whether the timers of this process are currently faked, as under `vi.useFakeTimers()`. */
export function areTimersFaked(): boolean {
  return globalThis.setTimeout !== realTimeout || wereTimersFaked();
}

/** Whether they were faked when the library was loaded: then it has no working timers. */
export function wereTimersFaked(): boolean {
  return Object.hasOwn(realTimeout, "clock");
}

export class RealWork {
  #known = counts();

  /** Everything in progress now is not the work of a handler. */
  ignoreAll(): void {
    this.#known = counts();
  }

  /** The names of work that started since, as Node reports them. Ended earlier work is dropped at each call. If one
   *  ends and another starts between two calls, the count is unchanged: call it often. */
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
