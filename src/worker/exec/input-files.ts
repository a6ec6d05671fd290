/** The files that a job brings along, put where its command finds them: `inputs/` in the attempt's own directory. Each
 *  attempt gets them anew, whatever the one before did to its own. Names and contents were checked by `checkExecInput`. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const INPUTS = "inputs";

/** All are there, for the owner alone, when the promise resolves. A job without files gets no directory. */
export async function writeInputFiles(dir: string, files: Readonly<Record<string, string>>): Promise<void> {
  const entries = Object.entries(files);
  if (entries.length === 0) return;
  const inputs = join(dir, INPUTS);
  await mkdir(inputs, { mode: 0o700 });
  for (const [name, content] of entries) {
    // wx: two names that this file system takes for one must not overwrite each other.
    await writeFile(join(inputs, name), Buffer.from(content, "base64"), { mode: 0o600, flag: "wx" });
  }
}
