/** Types of JSON values: the type of a value after it was stored as JSON, and compile-time errors for values that cannot be. At
 *  run time `JSON.stringify` decides. */

type Plain = string | number | boolean | null;
/** The result of a handler that returns nothing. */
type Nothing = undefined | ReturnType<() => void>;
type IsAny<T> = 0 extends 1 & T ? true : false;
type AnyFunction = (...args: never[]) => unknown;

/** The type of a value of type `T` after it was stored as JSON, as `result()` returns it: a `Date` is a string, `undefined` in a
 *  list is null.
 *  @example
 *  type Stored = JsonImage<{ at: Date; n?: number }>; // { at: string; n?: number } */
export type JsonImage<T> =
  IsAny<T> extends true
    ? T
    : unknown extends T
      ? T
      : T extends Plain | Nothing
        ? T
        : T extends { toJSON(...args: never[]): infer Image }
          ? JsonImage<Image>
          : T extends AnyFunction | bigint | symbol
            ? never
            : T extends readonly unknown[]
              ? { [K in keyof T]: ListItem<T[K]> }
              : { [K in keyof T as K extends symbol ? never : K]: JsonImage<T[K]> };

type ListItem<T> = undefined extends T ? JsonImage<Exclude<T, undefined>> | null : JsonImage<T>;

/** The type in a compiler error where something is not JSON, with the problem.
 *  @example
 *  task("report", () => new Map([["a", 1]])); // NotJson<"the result is a Map, …"> */
export interface NotJson<Problem extends string> {
  readonly "not JSON": Problem;
}

/** Limits the depth of the check, as types may be recursive. */
type FewerLevels = [never, 0, 1, 2, 3, 4, 5, 6, 7];

/** Where and why `T` cannot be JSON; `never` if it can. With `Side` `input`, a `Date` is wrong too, as the handler receives its
 *  text. */
export type JsonProblem<T, Side extends "input" | "result", At extends string = "", Depth extends number = 8> = [
  Depth,
] extends [never]
  ? never
  : IsAny<T> extends true
    ? never
    : unknown extends T
      ? never
      : T extends Plain | Nothing
        ? never
        : T extends bigint
          ? `${ProblemPlace<Side, At>} is a bigint, which JSON cannot hold: use a string`
          : T extends symbol
            ? `${ProblemPlace<Side, At>} is a symbol, which JSON cannot hold`
            : T extends { toJSON(...args: never[]): infer Image }
              ? Side extends "input"
                ? `${ProblemPlace<Side, At>} is a ${NameOf<T>}, which arrives as its JSON: declare a string, or give the task a schema`
                : JsonProblem<Image, Side, At, FewerLevels[Depth]>
              : T extends AnyFunction
                ? `${ProblemPlace<Side, At>} is a function, which JSON cannot hold`
                : T extends ReadonlyMap<unknown, unknown>
                  ? `${ProblemPlace<Side, At>} is a Map, which JSON cannot hold: use Object.fromEntries(map)`
                  : T extends ReadonlySet<unknown>
                    ? `${ProblemPlace<Side, At>} is a Set, which JSON cannot hold: use [...set]`
                    : T extends readonly (infer Item)[]
                      ? JsonProblem<Item, Side, `${At}[]`, FewerLevels[Depth]>
                      : {
                          [K in keyof T & string]-?: JsonProblem<
                            T[K],
                            Side,
                            At extends "" ? K : `${At}.${K}`,
                            FewerLevels[Depth]
                          >;
                        }[keyof T & string];

type ProblemPlace<Side extends string, At extends string> = At extends "" ? `the ${Side}` : `"${At}" of the ${Side}`;
type NameOf<T> = T extends Date ? "Date" : "value with toJSON()";

/** `unknown` where input and result are JSON, else the compiler error. */
export type JsonCheck<Input, Output> = ShownProblem<JsonProblem<Input, "input">> &
  ShownProblem<JsonProblem<Output, "result">>;

/** A type with another error is `any`; that error is reported already. */
type ShownProblem<Problem> =
  IsAny<Problem> extends true ? unknown : [Problem] extends [never] ? unknown : NotJson<Problem & string>;
