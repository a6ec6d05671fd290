/** Limits concurrent work; further work waits in order of arrival. */
export function limiter(limit: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let free = limit;
  return async (work) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      // The slot goes directly to the next waiter, so that newcomers cannot overtake.
      if (next === undefined) free += 1;
      else next();
    }
  };
}
