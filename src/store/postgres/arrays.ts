/** Lists as PostgreSQL array text. A statement over `unnest` of some arrays costs little more than one over one row,
 *  and building their text here is several times faster than the driver's way. A list that is null throughout becomes
 *  the empty array: `unnest` fills up with nulls. */

export function numbers(list: readonly (number | null)[]): string {
  if (isEmpty(list)) return "{}";
  return list.includes(null) ? `{${list.map((each) => each ?? "null").join()}}` : `{${list.join()}}`;
}

export function texts(list: readonly (string | null)[]): string {
  if (isEmpty(list)) return "{}";
  let text = "{";
  for (let i = 0; i < list.length; i++) {
    const each = list[i] as string | null;
    if (i > 0) text += ",";
    text += each === null ? "null" : quoted(each);
  }
  return `${text}}`;
}

function isEmpty(list: readonly unknown[]): boolean {
  for (const each of list) if (each !== null) return false;
  return true;
}

const NEEDS_ESCAPE = /["\\]/;

function quoted(text: string): string {
  if (typeof text !== "string") throw new TypeError(`not text: ${typeof text}`);
  return NEEDS_ESCAPE.test(text) ? `"${text.replaceAll(/["\\]/g, "\\$&")}"` : `"${text}"`;
}
