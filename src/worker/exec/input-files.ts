/** Writes the input files of a command to `inputs/` in the attempt's directory: those given with the job, those stored with its
 *  playbook, and the worker's own runner. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { CheckedExec } from "../../core/input/exec-input.ts";
import { PYTHON_RUNNER, RUNNER_FILE } from "../../core/input/python-harness.ts";

const INPUTS = "inputs";

/** The bytes of an asset, by its SHA-256. */
export type FetchAsset = (hash: string) => Promise<Uint8Array>;

/** Readable by the owner only. Each attempt gets fresh copies. Names and contents were checked by `checkExecInput`. A job without
 *  files gets no directory. */
export async function writeInputFiles(
  dir: string,
  { files, assets, runner }: Pick<CheckedExec, "files" | "assets" | "runner">,
  fetchAsset: FetchAsset,
): Promise<void> {
  const contents: [name: string, content: Uint8Array | string][] = [];
  for (const [name, content] of Object.entries(files)) contents.push([name, Buffer.from(content, "base64")]);
  for (const [name, hash] of Object.entries(assets)) contents.push([name, await fetchAsset(hash)]);
  if (runner === "python") contents.push([RUNNER_FILE, PYTHON_RUNNER]);
  if (contents.length === 0) return;
  const inputs = join(dir, INPUTS);
  await mkdir(inputs, { mode: 0o700 });
  for (const [name, content] of contents) {
    // wx: two names that are the same to this file system must not overwrite each other.
    await writeFile(join(inputs, name), content, { mode: 0o600, flag: "wx" });
  }
}
