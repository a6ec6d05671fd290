/** Variables for conditions that notice when somebody does more with them than read plain values: getters and methods that
 *  must never run, proxies that hear every touch. Real variables come from JSON and have none of this. */

export interface Traps {
  readonly variables: Readonly<Record<string, unknown>>;
  /** What must not have happened. */
  readonly sprung: string[];
  /** How often a proxy was touched in an allowed way: a measure of the work done. */
  readonly touched: () => number;
}

export function setTraps(): Traps {
  const sprung: string[] = [];
  let touches = 0;
  const spring = (what: string) => {
    sprung.push(what);
    return undefined;
  };

  /** Looking at own fields is allowed, and a list's length; nothing else is. */
  function proxied<T extends object>(target: T, name: string): T {
    const bad = (what: string) => () => {
      throw new Error(String(spring(`${name}: ${what}`)));
    };
    return new Proxy(target, {
      get(_, key) {
        if (key === "length" && Array.isArray(target)) touches += 1;
        else spring(`${name}: get ${String(key)}`);
        return Reflect.get(target, key);
      },
      getPrototypeOf: () => seen(Reflect.getPrototypeOf(target)),
      getOwnPropertyDescriptor: (_, key) => seen(Reflect.getOwnPropertyDescriptor(target, key)),
      ownKeys: () => seen(Reflect.ownKeys(target)),
      ...{ set: bad("set"), has: bad("has"), deleteProperty: bad("delete"), defineProperty: bad("define") },
      ...{ setPrototypeOf: bad("set prototype"), preventExtensions: bad("prevent"), apply: bad("call") },
      construct: bad("construct"),
    });
  }
  function seen<V>(value: V): V {
    touches += 1;
    return value;
  }

  const list: unknown[] = [1, "a", null, { state: "x" }];
  Object.defineProperty(list, 1, { get: () => spring("a getter of a list"), enumerable: true });
  Object.assign(list, {
    ...{ every: () => spring("every"), some: () => spring("some"), concat: () => spring("concat") },
    ...{ map: () => spring("map"), constructor: () => spring("a list's constructor") },
  });
  const data = {
    ...{ a: 1, list, state: "PENDING", deep: { a: { a: { a: 1 } } }, 0: "zero" },
    get getter() {
      return spring("a getter");
    },
    method: () => spring("a method"),
    toString: () => spring("toString"),
    valueOf: () => spring("valueOf"),
    toJSON: () => spring("toJSON"),
    [Symbol.toPrimitive]: () => spring("toPrimitive"),
    ...JSON.parse('{"constructor": {"prototype": {"polluted": 1}}, "prototype": 1}'),
  };
  Object.defineProperty(data, "__proto__", { value: { polluted: 1 }, enumerable: true });
  class Odd {
    field = spring;
  }
  const variables = {
    result: proxied(
      { a: 1, state: "x", list: [1, 2], deep: proxied({ a: proxied([1, 2], "inner list") }, "inner") },
      "result",
    ),
    data,
    ...{ status_code: 503, error: "503 Service Unavailable ".repeat(40), success: false, attempt: 2 },
    ...{ execution_id: new Odd(), node_id: () => spring("a function"), failure: proxied(list, "failure") },
  };
  return { variables, sprung, touched: () => touches };
}
