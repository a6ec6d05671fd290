/** The verdict of a command whose worker was lost: a result.json that was complete by then, and that this engine can read. The
 *  worker that held the attempt wrote it, or had it written in a directory that is ours too: nobody else may. What is not
 *  whole JSON with a status that means something is no verdict, and the attempt is lost. */
import type { ExecResult } from "../core/builtin.ts";
import { endByVerdict, isVerdict, VERDICT_LIMITS, type Verdict, verdictIn } from "../core/verdict.ts";
import type { Report, ReportedOutcome } from "../core/work.ts";
import { jsonDepth } from "../lib/json-depth.ts";
import { isOver } from "../lib/text.ts";
import type { Blobs } from "../store/blobs.ts";
import type { ExpiredJob } from "../store/store.ts";
import type { EngineParts } from "./engine.ts";
import { LIMITS } from "./limits.ts";

type Readable = Pick<Blobs, "get" | "list">;
type Lost = Pick<ExpiredJob, "jobId" | "attempt">;

/** Null where there is none, or it cannot be read. */
export async function lostVerdict({ outputs, log }: EngineParts, { jobId, attempt }: Lost): Promise<Verdict | null> {
  if (outputs === undefined) return null;
  try {
    const text = await textOf(outputs, { jobId, attempt });
    if (text === null || jsonDepth(text) > VERDICT_LIMITS.depth) return null;
    const value = parsed(text);
    const verdict = value === undefined ? null : verdictIn(value);
    return verdict !== null && isVerdict(verdict) ? verdict : null;
  } catch (error) {
    log("warn", `cannot read the result.json of ${jobId}, attempt ${attempt}: ${String(error)}`);
    return null;
  }
}

/** The report that settles a lost attempt: of a command by its verdict, where it left a complete one. */
export async function lostReport(
  parts: EngineParts,
  { jobId, attempt }: Lost,
  { isCommand, now }: { readonly isCommand: boolean; readonly now: number },
): Promise<Report> {
  const verdict = isCommand ? await lostVerdict(parts, { jobId, attempt }) : null;
  if (verdict !== null) return verdictReport(parts, { jobId, attempt }, verdict, now);
  return { jobId, attempt, from: { kind: "reaper" }, outcome: { kind: "lost" }, usage: null, log: null };
}

/** The store accepts it under the same condition as any report of a lost attempt: the lease has ended, or the session is
 *  missing. */
async function verdictReport({ outputs }: EngineParts, lost: Lost, verdict: Verdict, now: number): Promise<Report> {
  const { jobId, attempt } = lost;
  await outputs?.keepAttempt?.(jobId, attempt); // before it counts: its files may lie on this host only
  const end = endByVerdict(verdict, null);
  const outcome: ReportedOutcome =
    end === null
      ? { kind: "lost" }
      : end.kind === "completed"
        ? { kind: "completed", result: await resultText(outputs as Readable, lost, end.output) }
        : end;
  const usage = "usage" in verdict ? verdict.usage : null;
  const log = `${new Date(now).toISOString()} its worker was lost; its result.json was complete, and counts\n`;
  return { jobId, attempt, from: { kind: "reaper" }, outcome, usage, log };
}

/** As its worker would have made it, but for the exit code, which nobody saw. */
async function resultText(outputs: Readable, { jobId, attempt }: Lost, output: unknown): Promise<string> {
  const none = { files: [], more: 0 };
  const { files, more } = await outputs.list(jobId, attempt).catch(() => none);
  const sizeOf = async (name: string) => ({ bytes: await bytesIn(outputs, { jobId, attempt }, name), dropped: 0 });
  const [stdout, stderr] = [await sizeOf("stdout.log"), await sizeOf("stderr.log")];
  const result: ExecResult = { exitCode: null, output, outputs: files, stdout, stderr };
  const text = JSON.stringify(more === 0 ? result : { ...result, moreOutputs: more });
  if (!isOver(text, LIMITS.payloadBytes)) return text;
  return JSON.stringify({ ...result, outputs: [], moreOutputs: files.length + more });
}

/** Null where it is not there, or larger than a verdict may be. */
async function textOf(outputs: Readable, { jobId, attempt }: Lost): Promise<string | null> {
  const source = await outputs.get(jobId, attempt, "result.json");
  if (source === null) return null;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of source) {
    size += (chunk as Buffer).length;
    if (size > VERDICT_LIMITS.bytes) return null;
    chunks.push(chunk as Buffer);
  }
  return size === 0 ? null : Buffer.concat(chunks).toString("utf8");
}

async function bytesIn(outputs: Readable, { jobId, attempt }: Lost, name: string): Promise<number> {
  let size = 0;
  try {
    for await (const chunk of (await outputs.get(jobId, attempt, name)) ?? []) size += (chunk as Buffer).length;
  } catch {
    return size; // it is only told
  }
  return size;
}

/** Undefined where it is not JSON, as of a file that was being written. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
