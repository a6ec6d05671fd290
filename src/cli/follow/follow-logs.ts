/** `perdure logs --follow`: the output of a job as it is written, across all attempts, as text or as JSON lines. */

import { StringDecoder } from "node:string_decoder";
import type { JobHandle } from "../../core/api/jobs.ts";
import type { Perdure } from "../../core/api.ts";
import { isTerminal } from "../../core/job/job.ts";
import { jobName } from "../../core/job/job-name.ts";
import type { OutputChunk } from "../../core/task/work-options.ts";
import type { CommandContext } from "../command.ts";
import { CliError, EXIT } from "../exit.ts";
import type { Io } from "../io.ts";
import { LiveOutput } from "../output/live-output.ts";
import { type Printer, writeJsonLine } from "../output/print.ts";
import { untilInterrupted } from "../stop-signals.ts";
import { followOutput } from "./follow-output.ts";

interface FollowLogsRequest {
  /** Only this attempt. */
  readonly attempt: number | undefined;
  readonly streams: readonly OutputChunk["stream"][];
}

/** Where chunks go; `text` is what a task logged. */
interface LogSink {
  show(chunk: OutputChunk, gone: AbortSignal): Promise<void> | undefined;
  text(attempt: number, log: string, gone: AbortSignal): Promise<void> | undefined;
  /** A remark on stderr. */
  note(text: string): void;
  /** An attempt has ended. */
  flush(): void;
}

export async function followLogs(
  context: CommandContext,
  perdure: Perdure,
  job: JobHandle<unknown>,
  { attempt: wanted, streams }: FollowLogsRequest,
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
  return untilInterrupted(context, async (signal) => {
    await followOutput({
      ...{ perdure, job, signal, from: wanted ?? null, once: wanted !== undefined },
      show: (chunk) => (streams.includes(chunk.stream) ? sink.show(chunk, out.gone) : undefined),
      onBegin: (attempt) => {
        if (!isFirst) sink.note(`attempt ${attempt} of ${job.id} (${jobName(info)})`);
        isFirst = false;
      },
      showLog: (attempt, text) => sink.text(attempt, text, out.gone),
      onEnd: () => sink.flush(),
    });
    return EXIT.done;
  });
}

/** Both streams to stdout, as without --follow. */
function plainSink({ io, out }: CommandContext, job: JobHandle<unknown>): LogSink {
  const live = new LiveOutput(io, { stdout: io.stdout, stderr: io.stdout });
  return {
    show: (chunk, gone) => live.show(chunk, gone),
    text: (attempt, log, gone) => {
      live.endLine("stdout");
      return live.show({ jobId: job.id, attempt, stream: "stdout", bytes: Buffer.from(log) }, gone);
    },
    note: (text) => {
      if (io.isTTY) live.endLine("stdout");
      out.note(text);
    },
    flush: () => live.flush(),
  };
}

// Output as JSON lines: `{"attempt": 1, "stream": "stdout", "text": "…"}`. A character that is split between two chunks is
// held until its remaining bytes arrive.

class JsonOutput implements LogSink {
  readonly #io: Io;
  readonly #out: Printer;
  #decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  #attempt = 0;

  constructor(io: Io, out: Printer) {
    this.#io = io;
    this.#out = out;
  }

  show({ stream, bytes, attempt }: OutputChunk): Promise<void> | undefined {
    this.#attempt = attempt;
    return this.#write(attempt, stream, this.#decoders[stream].write(Buffer.from(bytes)));
  }

  text(attempt: number, log: string): Promise<void> | undefined {
    return this.#write(attempt, "log", log);
  }

  note(text: string): void {
    this.#out.note(text);
  }

  flush(): void {
    for (const stream of ["stdout", "stderr"] as const) {
      void this.#write(this.#attempt, stream, this.#decoders[stream].end());
    }
    this.#decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  }

  #write(attempt: number, stream: string, text: string): Promise<void> | undefined {
    return text === "" ? undefined : writeJsonLine(this.#io, this.#out, { attempt, stream, text });
  }
}
