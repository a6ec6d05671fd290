/** The fenced code blocks of a page, with their info strings. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("..", import.meta.url));

export interface Fence {
  readonly page: string;
  readonly line: number;
  readonly info: string;
  readonly body: string;
}

/** `page` is a path from the root. */
export function fencesIn(page: string): Fence[] {
  const text = readFileSync(join(ROOT, page), "utf8");
  return [...text.matchAll(/^```([^\n`]+)\n(.*?)^```$/gms)].map(({ 1: info = "", 2: body = "", index }) => ({
    page,
    line: text.slice(0, index).split("\n").length,
    info: info.trim(),
    body,
  }));
}
