/** A value of PostgreSQL as JSON text. Numbers stay numbers only if that keeps them exact; what JSON has no form for is text as
 *  PostgreSQL writes it. JSON is passed on unchanged, so that its numbers keep all digits. */
import { jsonDepth } from "../../lib/json-text.ts";

type ToJson = (text: string) => string;

/** Deeper JSON is returned as text: with the rows around it, it would exceed the limit of results. */
const MAX_JSON_DEPTH = 60;

/** Converts a column by the id of its type. */
export function columnText(typeId: number): ToJson {
  return SCALARS.get(typeId) ?? ARRAYS.get(typeId) ?? JSON.stringify;
}

const SCALARS = new Map<number, ToJson>([
  [16, (text) => (text === "t" ? "true" : "false")],
  [17, bytes],
  ...[21, 23, 26].map((id) => [id, asIs] as const), // int2, int4, oid
  ...[20, 1700].map((id) => [id, exactNumber] as const), // int8, numeric
  ...[700, 701].map((id) => [id, float] as const), // float4, float8
  ...[114, 3802].map((id) => [id, json] as const), // json, jsonb
  ...[1114, 1184].map((id) => [id, instant] as const), // timestamp, timestamptz
  [1266, (text) => JSON.stringify(withOffset(text))], // timetz
]);

/** Types of arrays, and of their elements. */
const ELEMENTS: readonly (readonly [array: number, element: number])[] = [
  ...([
    [1000, 16] as const,
    [1001, 17] as const,
    [1005, 21] as const,
    [1007, 23] as const,
    [1028, 26] as const,
  ] as const),
  ...([[1016, 20] as const, [1231, 1700] as const, [1021, 700] as const, [1022, 701] as const] as const),
  ...([[199, 114] as const, [3807, 3802] as const, [1115, 1114] as const, [1185, 1184] as const] as const),
  ...([[1270, 1266] as const, [1182, 1082] as const, [1183, 1083] as const, [1187, 1186] as const] as const),
  // char, name, text, bpchar, varchar, uuid, inet, cidr
  ...[1002, 1003, 1009, 1014, 1015, 2951, 1041, 651].map((array) => [array, 25] as const),
];
const ARRAYS = new Map(
  ELEMENTS.map(([array, element]) => [array, (text: string) => arrayText(text, columnText(element))] as const),
);

function asIs(text: string): string {
  return text;
}

/** A number if JavaScript writes the same digits for it, zeros at the ends aside, and, if it is whole, can count up to it. */
function exactNumber(text: string): string {
  const [, sign = "", whole = "", fraction = ""] = /^(-?)0*(\d+)(?:\.(\d*?)0*)?$/.exec(text) ?? [];
  const plain = `${sign}${whole}${fraction === "" ? "" : `.${fraction}`}`;
  const number = Number(text);
  const isExact = whole !== "" && String(number) === plain && (fraction !== "" || Number.isSafeInteger(number));
  return isExact ? plain : JSON.stringify(text);
}

/** PostgreSQL writes as many digits as identify the number. */
function float(text: string): string {
  return JSON.stringify(Number.isFinite(Number(text)) ? Number(text) : text);
}

function bytes(text: string): string {
  return JSON.stringify(text.startsWith("\\x") ? Buffer.from(text.slice(2), "hex").toString("base64") : text);
}

function json(text: string): string {
  return jsonDepth(text) > MAX_JSON_DEPTH ? JSON.stringify(text) : text;
}

/** `2026-11-20 12:00:00.5+01` as `2026-11-20T12:00:00.5+01:00`. Infinity and years BC have no ISO form and stay as they are. */
function instant(text: string): string {
  const isIso = /^\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d[^ ]*$/.test(text);
  return JSON.stringify(isIso ? withOffset(text.replace(" ", "T")) : text);
}

function withOffset(text: string): string {
  return text.replace(/([+-]\d\d)$/, (hours) => (hours === "+00" ? "Z" : `${hours}:00`));
}

/** `{1,NULL,"a \"b\""}`, with nested braces for more dimensions, as a list. Before it may be bounds: `[0:1]={…}`. */
function arrayText(text: string, element: ToJson): string {
  let at = text.indexOf("{");
  if (at === -1) return JSON.stringify(text);
  const list = (): string => {
    const items: string[] = [];
    at += 1;
    while (at < text.length && text[at] !== "}") {
      if (text[at] === "{") items.push(list());
      else if (text[at] === '"') items.push(element(quotedItem()));
      else {
        const end = text.slice(at).search(/[,}]/);
        const item = text.slice(at, at + end);
        at += end;
        items.push(item === "NULL" ? "null" : element(item));
      }
      if (text[at] === ",") at += 1;
    }
    at += 1;
    return `[${items.join(",")}]`;
  };
  const quotedItem = (): string => {
    let item = "";
    for (at += 1; at < text.length && text[at] !== '"'; at += 1) {
      if (text[at] === "\\") at += 1;
      item += text[at];
    }
    at += 1;
    return item;
  };
  return list();
}
