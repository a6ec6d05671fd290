/** What a command sees of its process. An argument, so that the whole command line runs inside a test. */
import { usageError } from "./exit.ts";

export interface Io {
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  /** Standard input; not opened until it is read. Missing in most tests. */
  readonly stdin?: { readonly fd: number; open(): AsyncIterable<Uint8Array> };
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Whether a person reads stdout. */
  readonly isTTY: boolean;
  /** The terminal's width; undefined without a terminal, and then nothing is cut. */
  readonly columns: number | undefined;
}

export function processIo(): Io {
  const { stdout, stderr, env } = process;
  return {
    stdin: { fd: 0, open: () => process.stdin },
    stdout,
    stderr,
    env,
    cwd: currentDirectory(),
    isTTY: stdout.isTTY === true,
    columns: stdout.columns || undefined,
  };
}

/** Fails if the directory was removed: relative paths would have no meaning. */
function currentDirectory(): string {
  try {
    return process.cwd();
  } catch {
    throw usageError("the current directory does not exist any more; change to another");
  }
}
