/** One JSON object on a line of its own, for lists that have no end. */
import type { Io } from "../io.ts";
import type { Printer } from "../print.ts";
import { safeJson } from "../terminal-text.ts";

/** A promise while the reader is behind. */
export function writeJsonLine({ stdout }: Io, { gone }: Printer, value: unknown): Promise<void> | undefined {
  if (gone.aborted || stdout.write(`${safeJson(JSON.stringify(value))}\n`)) return undefined;
  return new Promise((resolve) => {
    const done = () => {
      stdout.removeListener("drain", done);
      gone.removeEventListener("abort", done);
      resolve();
    };
    stdout.once("drain", done);
    gone.addEventListener("abort", done);
  });
}
