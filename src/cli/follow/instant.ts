/** Instants as people write them on a command line: `30m` ago, or a date and time. */
import { toMs } from "../../core/duration.ts";
import { show } from "../../core/errors.ts";
import type { Given } from "../arguments.ts";
import { usageError } from "../exit.ts";

const AGO = /^\d{1,15}(\.\d{1,6})?\s*(ms|s|m|h|d)$/;
const DATE = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})?)?$/;

/** Milliseconds UTC. Without a zone it is local time, and a date alone is its beginning. */
export function instantOf(given: Given, name: string, now: number): number | undefined {
  const text = given.text(name)?.trim();
  if (text === undefined) return undefined;
  if (AGO.test(text)) return now - toMs(text, `--${name}`);
  // Node takes a date alone for UTC, and with a time for local.
  const at = DATE.test(text) ? Date.parse(text.includes("T") ? text : `${text}T00:00`) : Number.NaN;
  if (!Number.isNaN(at)) return at;
  throw usageError(
    `--${name}: got ${show(text)}; give a time ago, such as 30m, or an instant, such as 2026-11-16T09:00:00Z`,
  );
}
