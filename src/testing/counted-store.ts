/** Counts the calls of a store, so that a test can wait until nothing is under way. */
import type { Store } from "../store/store.ts";

/** The same store, with a count of the calls that have not been answered. */
export function counted(store: Store, calls: { underWay: number }): Store {
  return new Proxy(store, {
    get(target, property, receiver) {
      const verb: unknown = Reflect.get(target, property, receiver);
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
