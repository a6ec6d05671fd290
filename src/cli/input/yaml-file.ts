/** YAML files of the command line: read within limits, and each mistake is a usage error with its position. */

import {
  readYamlDocuments as documentsIn,
  readYaml as read,
  readYamlBytes as readBytes,
  YamlError,
  type YamlPath,
  type YamlText,
  yamlTextIn,
} from "../../yaml/read.ts";
import { YAML_LIMITS } from "../../yaml/scan.ts";
import { CliError, EXIT, usageError } from "../exit.ts";
import { readBounded } from "./read-file.ts";

function asUsage<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof YamlError ? usageError(error.message) : error;
  }
}

/** A mistake in a part of the file. */
export function yamlUsageError(yaml: YamlText, path: YamlPath, message: string): CliError {
  return usageError(`${yaml.where(path)}: ${message}`);
}

/** `file` is for messages. */
export function readYaml(text: string, file: string): YamlText {
  return asUsage(() => read(text, file));
}

/** All documents of a text, separated by `---`. Empty ones are left out, unless all are empty. */
export function readYamlDocuments(text: string, file: string): YamlText[] {
  return asUsage(() => documentsIn(text, file));
}

export function readYamlBytes(bytes: Uint8Array, file: string): YamlText {
  return asUsage(() => readBytes(bytes, file));
}

/** The bytes of a file as text. */
export function textIn(bytes: Uint8Array, file: string): string {
  return asUsage(() => yamlTextIn(bytes, file));
}

/** Throws if the open file must not be read. */
type YamlFileCheck = (descriptor: number) => void;

/** Null if there is no such file. */
export function readYamlFile(path: string, file: string, check?: YamlFileCheck): YamlText | null {
  const bytes = readSmallFile(path, file, YAML_LIMITS.bytes + 1, check);
  return bytes === null ? null : readYamlBytes(bytes, file);
}

/** Reads at most `limit` bytes of a file; null if it does not exist. */
export function readSmallFile(path: string, file: string, limit: number, check?: YamlFileCheck): Buffer | null {
  try {
    return readBounded(path, limit, file, check);
  } catch (error) {
    if (error instanceof CliError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    if (code === "EISDIR") throw usageError(`${file} is a directory; pass a file`);
    throw new CliError(EXIT.usage, `${file}: cannot be read: ${message}`);
  }
}
