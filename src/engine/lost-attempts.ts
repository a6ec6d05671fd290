/** Settles attempts whose worker is lost: by the result.json of the command where a complete one exists, as lost
 *  otherwise. Also cancelled attempts whose session row is missing, which no lease would ever end. */
import { type ExecResult, exec } from "../core/input/builtin.ts";
import { type CommandVerdict, endByVerdict, isVerdict, VERDICT_LIMITS, verdictIn } from "../core/input/verdict.ts";
import { isTerminal, type Job } from "../core/job/job.ts";
import type { Report, ReportedOutcome } from "../core/worker-protocol.ts";
import { jsonDepth } from "../lib/json-text.ts";
import { limiter } from "../lib/limiter.ts";
import { isOver } from "../lib/text.ts";
import type { Blobs } from "../store/blobs.ts";
import type { ExpiredJob } from "../store/store.ts";
import { LIMITS } from "./limits.ts";
import type { EngineParts } from "./parts.ts";
import { settle } from "./settle.ts";

// The verdict of a command whose worker was lost: a complete result.json that this engine can read. Only the worker that held
// the attempt can have written it, or its command in a directory that both share. Without complete JSON and a known status
// there is no verdict, and the attempt is lost.

type OutputReader = Pick<Blobs, "get" | "list">;
type LostAttempt = Pick<ExpiredJob, "jobId" | "attempt">;

/** Null if it does not exist or cannot be read. */
export async function lostVerdict(
  { outputs, log }: EngineParts,
  { jobId, attempt }: LostAttempt,
): Promise<CommandVerdict | null> {
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

/** The report that settles a lost attempt: by its verdict if it is a command that left a complete one. */
export async function lostReport(
  parts: EngineParts,
  { jobId, attempt }: LostAttempt,
  { isCommand, now }: { readonly isCommand: boolean; readonly now: number },
): Promise<Report> {
  const verdict = isCommand ? await lostVerdict(parts, { jobId, attempt }) : null;
  if (verdict !== null) return verdictReport(parts, { jobId, attempt }, verdict, now);
  return { jobId, attempt, from: { kind: "reaper" }, outcome: { kind: "lost" }, usage: null, log: null };
}

/** The store accepts it under the same condition as any report of a lost attempt: the lease has ended, or the session is
 *  missing. */
async function verdictReport(
  { outputs }: EngineParts,
  lost: LostAttempt,
  verdict: CommandVerdict,
  now: number,
): Promise<Report> {
  const { jobId, attempt } = lost;
  await outputs?.keepAttempt?.(jobId, attempt); // first: its files may exist on this host only
  const end = endByVerdict(verdict, null);
  const outcome: ReportedOutcome =
    end === null
      ? { kind: "lost" }
      : end.kind === "completed"
        ? { kind: "completed", result: await resultText(outputs as OutputReader, lost, end.output) }
        : end;
  const usage = "usage" in verdict ? verdict.usage : null;
  const log = `${new Date(now).toISOString()} worker lost; settled by its complete result.json\n`;
  return { jobId, attempt, from: { kind: "reaper" }, outcome, usage, log };
}

/** As its worker would have made it, except for the exit code, which is unknown. */
async function resultText(outputs: OutputReader, { jobId, attempt }: LostAttempt, output: unknown): Promise<string> {
  const none = { files: [], more: 0 };
  const { files, more } = await outputs.list(jobId, attempt).catch(() => none);
  const sizeOf = async (name: string) => ({ bytes: await bytesIn(outputs, { jobId, attempt }, name), dropped: 0 });
  const [stdout, stderr] = [await sizeOf("stdout.log"), await sizeOf("stderr.log")];
  const result: ExecResult = { exitCode: null, output, outputs: files, stdout, stderr };
  const text = JSON.stringify(more === 0 ? result : { ...result, moreOutputs: more });
  if (!isOver(text, LIMITS.payloadBytes)) return text;
  return JSON.stringify({ ...result, outputs: [], moreOutputs: files.length + more });
}

/** Null if it does not exist, or is larger than a verdict may be. */
async function textOf(outputs: OutputReader, { jobId, attempt }: LostAttempt): Promise<string | null> {
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

async function bytesIn(outputs: OutputReader, { jobId, attempt }: LostAttempt, name: string): Promise<number> {
  let size = 0;
  try {
    for await (const chunk of (await outputs.get(jobId, attempt, name)) ?? []) size += (chunk as Buffer).length;
  } catch {
    return size; // it is only shown
  }
  return size;
}

/** Undefined if it is not JSON, as in a file that was being written. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// A cancel of a running job reaches it through its session. If the row of that session is missing, no worker receives it and
// no lease will expire: the attempt is settled as lost at once, as by the reaper, so that the cancel takes effect without a
// running engine too. A missing row never comes back, so it can be read before the job is locked; whether the job still runs
// this attempt is checked under its lock.

const READ_AT_ONCE = 8;

/** Of jobs with a stored cancel: those without a session, which have ended now. */
export async function endOrphans(parts: EngineParts, cancelled: readonly Job[]): Promise<ReadonlySet<string>> {
  const running = cancelled.filter(({ state }) => state === "running");
  if (running.length === 0) return new Set();
  const sessions = new Set(running.flatMap(({ worker }) => (worker === null ? [] : [worker])));
  const reached = new Set((await parts.store.sessions.cancelsFor([...sessions])).map(({ jobId }) => jobId));
  const orphans = running.filter(({ id }) => !reached.has(id));
  if (orphans.length === 0) return new Set();
  const inTurn = limiter(READ_AT_ONCE);
  const now = parts.clock.now();
  const reports = await Promise.all(
    orphans.map(({ id, attempt, kind }) =>
      inTurn(() => lostReport(parts, { jobId: id, attempt }, { isCommand: kind === exec.kind, now })),
    ),
  );
  const answers = await settle(parts, reports, { at: now, tidied: true });
  const ended = orphans.filter((_, i) => {
    const answer = answers[i];
    return answer?.status === "accepted" && isTerminal(answer.state);
  });
  return new Set(ended.map(({ id }) => id));
}
