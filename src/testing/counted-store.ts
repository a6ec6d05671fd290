/** Counts the calls of a store, or of files, so that a test can wait until nothing is under way. */

/** The same object, with a count of the calls that have not been answered. */
export function counted<T extends object>(port: T, calls: { underWay: number }): T {
  return new Proxy(port, {
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
