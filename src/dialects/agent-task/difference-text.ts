/** How a difference is printed. Values that may be secrets are left out: those of variables and arguments, and what stands before
 *  the host of an address. */
import { isPlain } from "../../core/check.ts";
import { show } from "../../core/errors.ts";
import type { Difference } from "../dialect.ts";

/** One value of a manifest or a job. */
export interface Fact {
  readonly value: unknown;
  /** Where it came from, if not from the task itself. */
  readonly from?: string;
  readonly isSecret?: boolean;
  /** Of a time in seconds: printed as manifests write it. */
  readonly isTime?: boolean;
}

export function differenceText(path: string, a: Fact | undefined, b: Fact | undefined): string {
  const isSecret = a?.isSecret || b?.isSecret;
  const [before, after] = isSecret ? [present(a), present(b)] : [shown(a), shown(b)];
  return before === after ? `${path}: another value` : `${path}: ${before} -> ${after}`;
}

/** Arguments that are named one by one. */
const MAX_ARGUMENTS = 5;

/** Position by position. */
export function commandDifferences(path: string, a: Fact | undefined, b: Fact | undefined): Difference[] {
  const [before, after] = [argumentsOf(a), argumentsOf(b)];
  const places = Array.from({ length: Math.max(before.length, after.length) }, (_, i) => i);
  const changed = places.filter((i) => before[i] !== after[i]);
  const listed = changed.slice(0, MAX_ARGUMENTS).map((i): Difference => {
    const at = `${path}[${i}]`;
    const factAt = (fact: Fact | undefined, list: readonly unknown[]) =>
      fact === undefined || i >= list.length ? undefined : { ...fact, value: list[i], isSecret: true };
    return { path: at, text: differenceText(at, factAt(a, before), factAt(b, after)) };
  });
  const more = changed.length - listed.length;
  const rest = more === 1 ? "one more argument differs" : `${more} more arguments differ`;
  return more === 0 ? listed : [...listed, { path, text: `${path}: ${rest}` }];
}

function argumentsOf(fact: Fact | undefined): readonly unknown[] {
  return Array.isArray(fact?.value) ? fact.value : [];
}

function present(fact: Fact | undefined): string {
  return fact === undefined ? "none" : withSource("set", fact);
}

function shown(fact: Fact | undefined): string {
  if (fact === undefined) return "none";
  const { value, isTime } = fact;
  return withSource(isTime && typeof value === "number" ? timeText(value) : show(withoutLogins(value)), fact);
}

function withSource(text: string, { from }: Fact): string {
  return from === undefined ? text : `${text} (${from})`;
}

/** Begins at the slashes, so that a long text costs no more than its length. */
const LOGIN = /:\/\/[^\s/?#]*@/g;

function withoutLogins(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll(LOGIN, "://***@");
  if (Array.isArray(value)) return value.map(withoutLogins);
  if (!isPlain(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withoutLogins(each)]));
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
  ["ms", 1],
] as const;

/** `1d12h`, as a manifest takes it. */
function timeText(seconds: number): string {
  let rest = Math.round(seconds * 1_000);
  const parts = UNITS.map(([unit, ms]) => {
    const count = Math.floor(rest / ms);
    rest -= count * ms;
    return count === 0 ? "" : `${count}${unit}`;
  });
  return parts.join("") || "0s";
}
