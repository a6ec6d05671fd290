/** Reads roles from the files and directories of the setting `agent.roles`, when a server starts or a command reads a
 *  file that may need them. A mistake is reported with its file and line. */
import { readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { usageError } from "../../../cli/exit.ts";
import { readSmallFile, readYamlDocuments, textIn } from "../../../cli/input/yaml-file.ts";
import { show } from "../../../core/errors.ts";
import { YAML_LIMITS } from "../../../yaml/scan.ts";
import { isRole } from "../role.ts";

const YAML_NAME = /\.(ya?ml|json)$/i;

/** `blame` starts the message about a path that cannot be read. */
export function rolesOf(paths: readonly string[], blame: string, cwd: string): unknown[] {
  return paths.flatMap((path) => {
    const full = resolve(cwd, path);
    let names: string[] | null;
    try {
      names = statSync(full).isDirectory() ? readdirSync(full).filter((name) => YAML_NAME.test(name)) : null;
    } catch (error) {
      throw usageError(`${blame}: ${whyNot(error as NodeJS.ErrnoException, path)}; change or remove it`);
    }
    if (names === null) return rolesIn(full, path);
    return names.sort().flatMap((name) => rolesIn(join(full, name), join(path, name)));
  });
}

function whyNot({ code, message }: NodeJS.ErrnoException, path: string): string {
  if (code === "ENOENT" || code === "ENOTDIR") return `${show(path)} does not exist`;
  return `${show(path)} cannot be read: ${message}`;
}

/** Other documents of a file, such as tasks, are left to `perdure apply`. */
function rolesIn(full: string, file: string): unknown[] {
  const bytes = readSmallFile(full, file, YAML_LIMITS.bytes + 1);
  if (bytes === null) return [];
  return readYamlDocuments(textIn(bytes, file), file)
    .map(({ value }) => value)
    .filter(isRole);
}
