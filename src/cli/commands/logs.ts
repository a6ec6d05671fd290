/** `perdure logs`: the output of a command, or what a task logged. */

import type { JobOutputs } from "../../core/api/outputs.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import type { CliCommand, CommandContext } from "../command.ts";
import { CliError, conflictError, EXIT } from "../exit.ts";
import { followLogs } from "../follow/follow-logs.ts";
import { fullId } from "../jobs/job-reference.ts";
import { copyOut } from "../output/file-output.ts";
import { TARGET, withPerdure } from "../target/target.ts";

export const logs: CliCommand = {
  name: "logs",
  summary: "Show the output of a command, or the log of a task",
  usage: "perdure logs ID [OPTIONS]",
  about:
    "Prints stdout and then stderr of the last attempt of a command, as far as they were kept, or what a task logged with " +
    "ctx.log; for a running attempt, the output so far. With --follow it prints new output as it comes, also of further " +
    "attempts, until the job has ended. On a terminal control characters are escaped; a pipe or file gets the bytes unchanged.",
  options: [
    { name: "follow", short: "f", type: "boolean", help: "Print new output as it comes, until the job has ended." },
    { name: "attempt", short: "a", type: "string", value: "N", help: "The attempt to show. Default: the last." },
    { name: "stdout", type: "boolean", help: "Only stdout." },
    { name: "stderr", type: "boolean", help: "Only stderr." },
    ...TARGET,
    { name: "json", type: "boolean", help: "Print one JSON document; with --follow, one object per line." },
    { name: "verbose", short: "v", type: "boolean", help: "Print warnings of the engine on stderr." },
  ],
  examples: [
    "perdure logs job_01m7gekg9zevv9a6xvvwmt1v8g --attempt 1",
    "perdure logs -f job_01m7gekg9zevv9a6xvvwmt1v8g",
  ],

  async run(context) {
    const { given } = context;
    const short = given.jobId();
    const wanted = given.integer("attempt", { min: 1, max: 1_000_000_000 });
    if (given.flag("stdout") && given.flag("stderr")) throw conflictError("--stdout", "--stderr");
    const streams = (["stdout", "stderr"] as const).filter(
      (name) => !given.flag(name === "stdout" ? "stderr" : "stdout"),
    );
    return withPerdure(context, async (perdure) => {
      const id = await fullId(perdure, short);
      const job = await perdure.job(id);
      if ((await job.get()).kind === RUN_KIND) {
        const how = `\`perdure steps ${id}\` lists its steps, and \`perdure logs JOB\` shows the output of the job of one`;
        throw new CliError(EXIT.failed, `${id} is a run, which has no output of its own; ${how}`);
      }
      if (given.flag("follow")) return followLogs(context, perdure, job, { attempt: wanted, streams });
      const outputs = await perdure.outputs(id);
      const info = await job.get();
      const attempt = wanted ?? lastOf(info, outputs);
      if (attempt === 0) throw new CliError(EXIT.failed, `${id} has not started yet`);
      if (attempt > info.attempt) {
        throw new CliError(EXIT.failed, `${id} has no attempt ${attempt}; see \`perdure get ${id}\``);
      }
      const logged = logOf(outputs, attempt);
      if (given.flag("json")) {
        const [stdout, stderr] = await Promise.all(
          ["stdout.log", "stderr.log"].map(async (name) => end(name, await outputs.read(attempt, name), context)),
        );
        context.out.json({ id, attempt, stdout, stderr, log: (await end("its log", logged, context)) || null });
        return EXIT.done;
      }
      let isEnded = true;
      let isEmpty = true;
      const copied = (bytes: AsyncIterable<Uint8Array> | null) =>
        copyOut(bytes === null ? null : noticed(bytes, () => (isEmpty = false)), context);
      for (const name of streams) {
        isEnded = await copied(await outputs.read(attempt, `${name}.log`));
      }
      await copied(isEnded ? logged : onNewLine(logged));
      if (isEmpty) context.out.note("no log output");
      return EXIT.done;
    });
  },
};

/** The running attempt, or the last with output: one that was released before it started has none. */
function lastOf({ state, attempt }: JobInfo, outputs: JobOutputs): number {
  return state === "running" ? attempt : (outputs.attempts.at(-1) ?? attempt);
}

async function* logOf(outputs: JobOutputs, attempt: number): AsyncGenerator<Uint8Array> {
  for (let after = 0; ; ) {
    const { text, next } = await outputs.log(attempt, after);
    if (text === "") return;
    yield Buffer.from(text);
    after = next;
  }
}

/** Calls `notice` before each chunk. */
async function* noticed(bytes: AsyncIterable<Uint8Array>, notice: () => void): AsyncGenerator<Uint8Array> {
  for await (const chunk of bytes) {
    notice();
    yield chunk;
  }
}

/** On a new line, after output that did not end with one. */
async function* onNewLine(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let isFirst = true;
  for await (const chunk of bytes) {
    if (isFirst) yield Buffer.from("\n");
    isFirst = false;
    yield chunk;
  }
}

/** Limit for each text of the JSON document, which is built in memory. */
const MAX_TEXT = 33_554_432;

/** All of it, or its end if it is over the limit. */
async function end(
  name: string,
  bytes: AsyncIterable<Uint8Array> | null,
  { out }: CommandContext,
): Promise<string | null> {
  if (bytes === null) return null;
  const chunks: Uint8Array[] = [];
  let size = 0;
  let leftOut = 0;
  for await (const chunk of bytes) {
    chunks.push(chunk);
    size += chunk.byteLength;
    for (let first = chunks[0]; first !== undefined && size - first.byteLength >= MAX_TEXT; first = chunks[0]) {
      chunks.shift();
      size -= first.byteLength;
      leftOut += first.byteLength;
    }
  }
  if (leftOut > 0) out.note(`${name}: the first ${leftOut} bytes are left out; all of it is printed without --json`);
  return Buffer.concat(chunks).toString("utf8");
}
