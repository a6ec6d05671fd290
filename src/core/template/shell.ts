/** Fills the command of a shell step. A value is quoted for its place, so the shell reads it as text: one word, or a part of one. What a
 *  program does with its arguments is not considered: `awk`, `python -c` or `ssh` may read them as code. `| raw` pastes. */
import {
  checkSize,
  expressionText,
  FillError,
  type FillOptions,
  parsedText,
  type TemplateScope,
  workForCommand,
} from "./fill.ts";
import { type ShellPlace, ShellRefusal, scanShell, TEMPLATE } from "./shell-places.ts";
import { hasTemplate, parseTemplate, type Template } from "./template.ts";

export type { ShellPlace } from "./shell-places.ts";

/** A template in a place where its value cannot be quoted. */
export class ShellPlaceError extends Error {
  /** Of the template, in the command. */
  readonly offset: number;

  constructor(offset: number, message: string) {
    super(message);
    this.name = "ShellPlaceError";
    this.offset = offset;
  }
}

/** The place of each template. Throws a `ShellPlaceError`, and a `TemplateError`. */
export function shellPlaces(command: string): readonly ShellPlace[] {
  return placesOf(parseTemplate(command));
}

/** Throws a `FillError`. */
export function fillShell(command: string, scope: TemplateScope, options: FillOptions): string {
  if (!hasTemplate(command)) return checkSize(command);
  const work = workForCommand(command, options);
  const template = parsedText(command);
  const places = placesToFill(template);
  let index = 0;
  const pieces = template.parts.map((part) => {
    if (typeof part === "string") return part;
    const text = expressionText(part, command, scope, work);
    const place = places[index++] as ShellPlace;
    if (text.includes("\0")) throw new FillError("template", "a command cannot have the character U+0000");
    return part.isRaw ? text : quotedFor(place, text);
  });
  return checkSize(pieces.join(""));
}

/** Within "…" the quotes are closed around the value, so that `"$name{{ x }}"` is not another variable. */
function quotedFor(place: ShellPlace, text: string): string {
  const inner = text.replaceAll("'", `'\\''`);
  if (place === "single") return inner;
  return place === "bare" ? `'${inner}'` : `"'${inner}'"`;
}

function placesToFill(template: Template): readonly ShellPlace[] {
  try {
    return placesOf(template);
  } catch (error) {
    if (!(error instanceof ShellPlaceError)) throw error;
    throw new FillError("template", `${error.message} (at character ${error.offset + 1})`);
  }
}

function placesOf({ parts }: Template): readonly ShellPlace[] {
  const pieces = parts.map((part) => (typeof part === "string" ? part.replaceAll(TEMPLATE, "�") : TEMPLATE));
  const code = pieces.join("");
  try {
    return scanShell(code);
  } catch (error) {
    if (!(error instanceof ShellRefusal)) throw error;
    const before = code.slice(0, error.index).split(TEMPLATE).length - 1;
    const refused = parts.filter((part) => typeof part !== "string")[before];
    throw new ShellPlaceError(refused?.at ?? 0, error.message);
  }
}
