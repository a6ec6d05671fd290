/** Mistakes, one in each line that ends in a marker: at which token the compiler must report it, once, and what its message
 *  holds. Compiled by `test/type-errors.test.ts`, never run. */
import { z } from "zod";
import { duration, type Perdure, task } from "../../src/index.ts";

const resize = task("resize", { retry: 3 }, (input: { url: string; width?: number }) => ({ at: new Date(), ...input }));
const log = task("log", (_input: undefined, ctx) => ctx.log("hello"));
const report = task(
  "report",
  { schema: z.object({ day: z.string(), copies: z.number().default(1) }) },
  (input) => input,
);

export async function submits(perdure: Perdure) {
  await perdure.submit(resize); //! submit | Expected 2-3 arguments, but got 1
  await perdure.submit(resize, {}); //! {} | Property 'url' is missing
  await perdure.submit(resize, { url: 7 }); //! url | 'number' is not assignable to type 'string'
  await perdure.submit(resize, { url: "a", heigth: 3 }); //! heigth | 'heigth' does not exist
  await perdure.submit(resize, { url: "a" }, { dealy: "1s" }); //! dealy | Did you mean to write 'delay'
  await perdure.submit(resize, { url: "a" }, { delay: "10min" }); //! delay | "10min"
  await perdure.submit(resize, { url: "a" }, { retry: { backoff: { initial: "1 minute" } } }); //! initial | "1 minute"
  await perdure.submit(log, { url: "a" }); //! { url | not assignable to parameter of type 'undefined'
  await perdure.submit(7); //! 7 | 'number' is not assignable
  await perdure.submit(report, { day: 7 }); //! day | 'number' is not assignable to type 'string'
  const { at } = await (await perdure.submit(resize, { url: "a" })).result();
  at.getTime(); //! getTime | Property 'getTime' does not exist on type 'string'
  const text: string = process.env.DELAY ?? "1m";
  await perdure.submit(log, undefined, { delay: text }); //! delay | 'string' is not assignable
  await perdure.submit(log, undefined, { delay: duration(text) });
  await perdure.submit("by-name", { any: "thing" }, { tags: "red" }); //! tags | 'string' is not assignable
}

task("child", async (_: undefined, ctx) => {
  await ctx.submit(resize, { url: 7 }); //! url | 'number' is not assignable to type 'string'
});

task("map", () => new Map([["a", 1]])); //! () | the result is a Map, which JSON cannot hold: use Object.fromEntries(map)
task("set", async () => ({ ids: new Set(["a"]) })); //! async | \"ids\" of the result is a Set
task("function", () => ({ a: [{ call: () => 1 }] })); //! () | \"a[].call\" of the result is a function
task("bigint", () => ({ n: 10n })); //! () | \"n\" of the result is a bigint, which JSON cannot hold: use a string
task("symbol", () => Symbol("a")); //! () | the result is a symbol
task("date", (input: { at: Date }) => input.at); //! (input | \"at\" of the input is a Date, which arrives as its JSON
task("map in", (input: Map<string, string>) => input.size); //! (input | the input is a Map
task("schema", { schema: z.object({ at: z.date() }) }, () => 1); //! () | \"at\" of the input is a Date
task("text", { schema: z.object({ n: z.coerce.number<string>() }) }, ({ n }) => n.trim()); //! trim | does not exist on type 'number'
