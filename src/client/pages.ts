/** Lists that a server returns a page at a time. */

import type { PageOptions } from "../core/api/queues.ts";

/** A page of a list. A server of version 0.1.0 has no pages for some lists: it sends all entries, without `next`. */
interface ListPage<T> {
  readonly items: readonly T[];
  readonly next: string | number | null | undefined;
}

/** All entries of a list. */
export async function allPages<T>(read: (query: URLSearchParams) => Promise<ListPage<T>>): Promise<T[]> {
  const all: T[] = [];
  for (let query = new URLSearchParams(); ; ) {
    const { items, next } = await read(query);
    all.push(...items);
    if (next == null) return all;
    query = new URLSearchParams({ after: String(next) });
  }
}

/** The requested page, or all entries. */
export async function pageOrAll<T>(
  page: PageOptions | undefined,
  read: (query: URLSearchParams) => Promise<ListPage<T>>,
): Promise<T[]> {
  if (page === undefined) return allPages(read);
  const { items, next } = await read(pageQuery(page));
  // Without pages the server sent all entries, whatever was requested: there are none after them.
  return next === undefined && page.after !== undefined ? [] : [...items];
}

export function pageQuery(page: object): URLSearchParams {
  const given = Object.entries(page).filter(([, value]) => value !== undefined);
  return new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]));
}
