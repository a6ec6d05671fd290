/** Tasks for workers under test, loaded with `--tasks`. */
import { appendFileSync, existsSync } from "node:fs";
import { setTimeout as pass } from "node:timers/promises";
import { task } from "perdure";

export const add = task("add", ({ a, b }) => ({ sum: a + b }));

/** `effects`: file to which each attempt appends a line. `ms`: duration. `failFirst`: whether the first attempt fails. */
export const effect = task("effect", async ({ effects, ms = 0, failFirst = false }, ctx) => {
  if (effects !== undefined) appendFileSync(effects, `${ctx.jobId} ${ctx.attempt}\n`);
  if (ms > 0) await pass(ms);
  if (failFirst && ctx.attempt === 1) throw new Error("not yet");
  return { attempt: ctx.attempt };
});

/** Runs until the file exists. */
export const hold = task("hold", async ({ effects, file }, ctx) => {
  appendFileSync(effects, `${ctx.jobId} ${ctx.attempt}\n`);
  while (!existsSync(file)) {
    ctx.signal.throwIfAborted();
    await pass(20);
  }
  return { attempt: ctx.attempt };
});
