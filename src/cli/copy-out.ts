/** A file that a command wrote, to our output: as it is into a pipe or file, neutralised on a terminal. */
import type { Context } from "./command.ts";
import { TerminalStream } from "./terminal-stream.ts";

const NEWLINE = 10;

/** Whether its last line was ended. */
export async function copyOut(
  bytes: AsyncIterable<Uint8Array> | null,
  { io, out }: Pick<Context, "io" | "out">,
): Promise<boolean> {
  const terminal = new TerminalStream();
  let last = NEWLINE;
  for await (const chunk of bytes ?? []) {
    if (out.gone.aborted) return true;
    last = chunk.at(-1) ?? last;
    const isReady = io.stdout.write(io.isTTY ? terminal.text(chunk) : chunk);
    if (isReady) continue;
    await new Promise<void>((resolve) => {
      io.stdout.once("drain", resolve);
      out.gone.addEventListener("abort", () => resolve());
    });
  }
  if (io.isTTY) io.stdout.write(terminal.end());
  return last === NEWLINE;
}
