/** Finds the place in the document of a part of the compiled playbook. */
import type { SourceMap, SourcePath } from "./problem.ts";

export class Places {
  readonly #sources: SourceMap;

  constructor(sources: SourceMap) {
    this.#sources = sources;
  }

  /** Whether the document has this part itself. */
  has(part: string): boolean {
    return this.#sources.has(part);
  }

  /** `root` is a field of the compiled playbook, such as `steps[3].action.data`; `below` leads to a part of its value, which is in
   *  the document as it is here. Without an entry: the nearest part around it. */
  of(root: string, below: SourcePath = []): SourcePath {
    for (let kept = below.length; kept >= 0; kept--) {
      const found = this.#sources.get(root + keyOf(below.slice(0, kept)));
      if (found !== undefined) return [...found, ...below.slice(kept)];
    }
    for (let around = parentOf(root); around !== ""; around = parentOf(around)) {
      const found = this.#sources.get(around);
      if (found !== undefined) return found;
    }
    return [];
  }
}

function keyOf(parts: SourcePath): string {
  return parts.map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`)).join("");
}

/** `steps[3]` of `steps[3].when`, and `steps` of that. */
function parentOf(key: string): string {
  return key.slice(0, Math.max(0, key.lastIndexOf("."), key.lastIndexOf("[")));
}
