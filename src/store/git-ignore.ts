/** Data directories hold jobs and tokens: they are not for a repository. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** Ours, where nobody names another. */
export const DATA_DIRECTORY = ".perdure";

/** Leaves a file there that keeps git away from all of it, unless there is one. Best effort: nothing depends on it. */
export function keepFromGit(dir: string): void {
  try {
    writeFileSync(join(dir, ".gitignore"), "# Jobs and tokens of Perdure.\n*\n", { flag: "wx", mode: 0o600 });
  } catch {
    // There is one, or it cannot be written: then the database could not be either, and that is reported.
  }
}
