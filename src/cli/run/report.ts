/** How it ended: a line for a person, one JSON object for a program, and the exit code. */
import { showMs } from "../../core/duration.ts";
import type { JobHandle } from "../../core/face.ts";
import { madeName } from "../../core/job-name.ts";
import { safeJson } from "../terminal-text.ts";
import { exitCodeOfJob } from "./ending.ts";
import { type Here, runs } from "./here.ts";

/** `asked`: the exit code of one who was asked to stop. */
export async function report(
  { perdure, context, live, say }: Here,
  job: JobHandle<unknown>,
  asked: number | null = null,
): Promise<number> {
  const { given, io } = context;
  const [info, rows, { attempts: stories }] = [await job.get(), await job.attempts(), await job.explain()];
  const exitCode = asked ?? exitCodeOfJob(info, rows);
  const took = info.finishedAt === null ? "" : `, ${showMs(info.finishedAt - info.submittedAt)}`;
  const how = info.reason === null ? info.state : `${info.state} (${info.reason})`;
  // A name that somebody gave; one that is made from the command tells nothing new.
  const named = info.name === madeName(info) ? "" : ` (${info.name})`;
  say(`${job.id}${named}: ${how} after ${runs(info.attempt)}${took}`);
  if (!given.flag("json")) return exitCode;
  const winner = info.state === "succeeded" ? info.attempt : null;
  const { files } = winner === null ? { files: [] } : await (await perdure.outputs(job.id)).files(winner);
  const attempts = rows.map(({ attempt, outcome, startedAt, endedAt, failure, result }) => ({
    attempt,
    outcome,
    exitCode: failure?.exitCode ?? exitCodeIn(result),
    signal: failure?.signal ?? null,
    message: failure?.message ?? null,
    startedAt,
    endedAt,
    delayMs: stories.find((story) => story.attempt === attempt)?.delay?.delayMs ?? null,
  }));
  const { state, reason } = info;
  live.endLine("stdout");
  io.stdout.write(
    `${safeJson(JSON.stringify({ id: job.id, name: info.name, state, reason, exitCode, attempts, outputs: files }))}\n`,
  );
  return exitCode;
}

function exitCodeIn(result: string | null): number | null {
  if (result === null) return null;
  const { exitCode } = JSON.parse(result) as { exitCode?: unknown };
  return typeof exitCode === "number" ? exitCode : null;
}
