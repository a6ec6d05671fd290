/** Encodes lists as binary PostgreSQL arrays: a statement over `unnest` of some arrays costs little more than one over
 *  a single row, and neither side has to quote and parse. The element type must be that of the parameter
 *  (`$1::bigint[]`). A list of nulls only becomes the empty array: `unnest` pads with nulls. */

import type { ColumnType } from "../job-row.ts";

const BIGINT = { oid: 20, size: 8 };
const INT = { oid: 23, size: 4 };
const SMALLINT = { oid: 21, size: 2 };
const NUMBERS = { bigint: BIGINT, int: INT, smallint: SMALLINT };
const TEXT_OID = 25;
const HEADER = 20;

type Numbers = readonly (number | null)[];

export const bigints = (list: Numbers) => numbers(list, BIGINT);
export const ints = (list: Numbers) => numbers(list, INT);
export const smallints = (list: Numbers) => numbers(list, SMALLINT);

function numbers(list: Numbers, { oid, size }: { readonly oid: number; readonly size: number }): Buffer {
  const nulls = countNulls(list);
  if (nulls === list.length) return empty(oid);
  const buffer = Buffer.allocUnsafe(HEADER + list.length * (4 + size) - nulls * size);
  let at = writeHeader(buffer, oid, list.length, nulls > 0);
  for (let i = 0; i < list.length; i++) {
    const each = list[i] as number | null;
    if (each === null) {
      at = buffer.writeInt32BE(-1, at);
      continue;
    }
    at = buffer.writeInt32BE(size, at);
    if (size === 2) at = buffer.writeInt16BE(each, at);
    else if (size === 4) at = buffer.writeInt32BE(each, at);
    else {
      at = buffer.writeInt32BE(Math.floor(each / 0x1_0000_0000), at);
      at = buffer.writeUInt32BE(each >>> 0, at);
    }
  }
  return buffer;
}

export function texts(list: readonly (string | null)[]): Buffer {
  let room = HEADER;
  let nulls = 0;
  for (const each of list) {
    if (each === null) nulls += 1;
    else if (typeof each !== "string") throw new TypeError(`not text: ${typeof each}`);
    else room += each.length * 3; // the most that UTF-8 needs
    room += 4;
  }
  if (nulls === list.length) return empty(TEXT_OID);
  const buffer = Buffer.allocUnsafe(room);
  let at = writeHeader(buffer, TEXT_OID, list.length, nulls > 0);
  for (let i = 0; i < list.length; i++) {
    const each = list[i] as string | null;
    if (each === null) {
      at = buffer.writeInt32BE(-1, at);
      continue;
    }
    const length = buffer.write(each, at + 4, "utf8");
    buffer.writeInt32BE(length, at);
    at += 4 + length;
  }
  return buffer.subarray(0, at);
}

/** Converts rows, one after another in one list, to one array per column. */
export function columnArrays(values: readonly (string | number | null)[], types: readonly ColumnType[]): Buffer[] {
  const wide = types.length;
  return types.map((type, column) => {
    const list = Array.from({ length: values.length / wide }, (_, row) => values[row * wide + column]);
    return type === "text" ? texts(list as (string | null)[]) : numbers(list as Numbers, NUMBERS[type]);
  });
}

function countNulls(list: readonly unknown[]): number {
  let nulls = 0;
  for (const each of list) if (each === null) nulls += 1;
  return nulls;
}

/** Header of a one-dimensional array: whether it has nulls, element type, length, lower bound 1. */
function writeHeader(buffer: Buffer, oid: number, length: number, hasNulls: boolean): number {
  buffer.writeInt32BE(1, 0);
  buffer.writeInt32BE(hasNulls ? 1 : 0, 4);
  buffer.writeInt32BE(oid, 8);
  buffer.writeInt32BE(length, 12);
  buffer.writeInt32BE(1, 16);
  return HEADER;
}

function empty(oid: number): Buffer {
  const buffer = Buffer.alloc(12);
  buffer.writeInt32BE(oid, 8);
  return buffer;
}
