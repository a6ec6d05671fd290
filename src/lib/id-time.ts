import { DIGITS } from "./id.ts";

/** When it was made, in milliseconds since 1970: the first 50 bits are two zeros and the time. */
export function timeOfId(id: string): number {
  const digits = id.slice(id.indexOf("_") + 1, id.indexOf("_") + 11);
  return [...digits].reduce((ms, digit) => ms * 32 + DIGITS.indexOf(digit), 0);
}
