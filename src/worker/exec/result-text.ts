/** The result of a command as it is reported, within the limit of a result. */
import type { ExecResult } from "../../core/input/builtin.ts";
import { MAX_JOB_BODY_BYTES } from "../../core/worker-protocol.ts";
import { isOver } from "../../lib/text.ts";
import type { CapturedBytes, CapturedText } from "./capture.ts";

interface ResultParts {
  readonly files: ExecResult["outputs"];
  /** Files that are not listed. */
  readonly more: number;
  /** Of stdout and of stderr. */
  readonly written: readonly [CapturedBytes, CapturedBytes];
  /** Of stdout, if the job asks for it. */
  readonly text: CapturedText | null;
}

/** Beyond the limit the list of files is left out, then the text of stdout. Null: the output alone is beyond it. */
export function resultText(
  { exitCode, output }: { readonly exitCode: number; readonly output: unknown },
  { files, more, written, text }: ResultParts,
): string | null {
  const [stdout, stderr] = written;
  const shown = (given: CapturedText | null) =>
    given === null ? stdout : { ...stdout, text: given.text, ...(given.isCut ? { textCut: true as const } : {}) };
  const made = (outputs: ExecResult["outputs"], left: number, given: CapturedText | null): string => {
    const result: ExecResult = { exitCode, output, outputs, stdout: shown(given), stderr };
    return JSON.stringify(left === 0 ? result : { ...result, moreOutputs: left });
  };
  const full = made(files, more, text);
  if (!isOver(full, MAX_JOB_BODY_BYTES)) return full;
  const all = files.length + more;
  const short = made([], all, text);
  if (!isOver(short, MAX_JOB_BODY_BYTES)) return short;
  if (text === null || text.text === "") return null;
  const bare = made([], all, { text: "", isCut: true });
  return isOver(bare, MAX_JOB_BODY_BYTES) ? null : bare;
}
