/** Lets few things be done at a time; the others wait in the order in which they came. */
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
      // The place is handed on: nobody who comes now is before those who waited.
      if (next === undefined) free += 1;
      else next();
    }
  };
}
