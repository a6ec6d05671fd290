/** `perdure logs --follow`: what a job writes, as it comes, over all runs to come. */
import type { JobHandle, Perdure } from "../../core/face.ts";
import { isTerminal } from "../../core/job.ts";
import { jobName } from "../../core/job-name.ts";
import type { OutputChunk } from "../../core/work-options.ts";
import type { Context } from "../command.ts";
import { CliError, EXIT } from "../exit.ts";
import { LiveOutput } from "../run/live-output.ts";
import { JsonOutput } from "./json-output.ts";
import { followOutput } from "./output-follower.ts";
import { untilLeft } from "./until-left.ts";

export interface LogsWanted {
  /** Only this run. */
  readonly attempt: number | undefined;
  readonly streams: readonly OutputChunk["stream"][];
}

/** Where chunks go; `text` is what a task logged. */
export interface LogSink {
  show(chunk: OutputChunk, gone: AbortSignal): Promise<void> | undefined;
  text(attempt: number, log: string, gone: AbortSignal): Promise<void> | undefined;
  /** A remark on stderr. */
  say(text: string): void;
  /** A run is over. */
  flush(): void;
}

export async function followLogs(
  context: Context,
  perdure: Perdure,
  job: JobHandle<unknown>,
  { attempt: wanted, streams }: LogsWanted,
): Promise<number> {
  const { given, out, io } = context;
  const info = await job.get();
  const { state, attempt: latest } = info;
  if (isTerminal(state) && latest < (wanted ?? 1)) {
    const why =
      wanted === undefined ? "ended without an attempt" : `has no attempt ${wanted}; see \`perdure get ${job.id}\``;
    throw new CliError(EXIT.failed, `${job.id} ${why}`);
  }
  const sink: LogSink = given.flag("json") ? new JsonOutput(io, out) : plainSink(context, job);
  let isFirst = true;
  return untilLeft(context, async (signal) => {
    await followOutput({
      ...{ perdure, job, signal, from: wanted ?? null, once: wanted !== undefined },
      show: (chunk) => (streams.includes(chunk.stream) ? sink.show(chunk, out.gone) : undefined),
      onBegin: (attempt) => {
        if (!isFirst) sink.say(`attempt ${attempt} of ${job.id} (${jobName(info)})`);
        isFirst = false;
      },
      showLog: (attempt, text) => sink.text(attempt, text, out.gone),
      onEnd: () => sink.flush(),
    });
    return EXIT.done;
  });
}

/** Both streams to stdout, as without --follow. */
function plainSink({ io, out }: Context, job: JobHandle<unknown>): LogSink {
  const live = new LiveOutput(io, { stdout: io.stdout, stderr: io.stdout });
  return {
    show: (chunk, gone) => live.show(chunk, gone),
    text: (attempt, log, gone) => {
      live.endLine("stdout");
      return live.show({ jobId: job.id, attempt, stream: "stdout", bytes: Buffer.from(log) }, gone);
    },
    say: (text) => {
      if (io.isTTY) live.endLine("stdout");
      out.note(text);
    },
    flush: () => live.flush(),
  };
}
