/** An action of a pack, read by its dialect as `perdure apply` reads its file. Whatever is wrong is told with file, line and
 *  column, also where it is the pack's manifest that is wrong. */
import { ConfigError } from "../../core/errors.ts";
import { attune } from "../../dialects/attune/dialect.ts";
import type { Reading } from "../../dialects/dialect.ts";
import type { DialectSettings } from "../../dialects/settings.ts";
import { FileContext } from "../apply/read-context.ts";
import type { FoundAction } from "./find.ts";

export interface ActionWish {
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly settings: DialectSettings;
}

export function readAction({ file, dir }: FoundAction, { parameters, settings }: ActionWish): Reading {
  const document = { yaml: file, dir, dialect: attune };
  const reader = new FileContext(document, { settings, parameters, documents: [document], onParameters: () => {} });
  try {
    const { jobs, notes } = attune.read(file.value, reader.context);
    return { jobs, notes: notes.map((note) => reader.noteAt(note)) };
  } catch (error) {
    throw error instanceof ConfigError ? reader.errorAt(error) : error;
  }
}
