/** What is read of a step of NoETL, whatever its type. */
import { asNumber, fieldPath, isPlain } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import type { ReadContext } from "../dialect.ts";

export type Given = Readonly<Record<string, unknown>>;

export interface Step {
  /** None but those that its type knows. */
  readonly fields: Given;
  /** From the document's root. */
  readonly path: string;
  readonly context: ReadContext;
  /** What cannot be done is added here. */
  readonly notes: string[];
}

/** Milliseconds of `timeout`, which is in seconds; null without one. */
export function timeoutMs({ fields, path }: Step, maxMs: number): number | null {
  if (fields.timeout === undefined) return null;
  const bounds = { min: 0.001, max: maxMs / 1_000 };
  return Math.round(asNumber(fields.timeout, fieldPath(path, "timeout"), bounds) * 1_000);
}

export function hasTemplate(text: unknown): boolean {
  return typeof text === "string" && /\{\{|\{%/.test(text);
}

/** What was given is not shown: it may be a secret. */
export function refuseTemplates(value: unknown, path: string): void {
  if (hasTemplate(value)) {
    const allowed = "text without {{ and {%: templates are filled in by whole playbooks, which are not supported yet";
    throw new ConfigError({ path, given: "a template", allowed, problem: "got a template" });
  }
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) refuseTemplates(item, `${path}[${index}]`);
  } else if (isPlain(value)) {
    for (const [key, item] of Object.entries(value)) refuseTemplates(item, fieldPath(path, key));
  }
}
