/** Things to do at an instant of a virtual clock, by instant and then in the order in which they were added: a binary heap. */

interface DueThing {
  readonly at: number;
  readonly order: number;
  readonly do: () => void;
}

export class DueQueue {
  readonly #heap: DueThing[] = [];
  #added = 0;

  add(at: number, run: () => void): void {
    this.#added += 1;
    const heap = this.#heap;
    heap.push({ at, order: this.#added, do: run });
    for (let i = heap.length - 1; i > 0; ) {
      const above = (i - 1) >> 1;
      if (!isBefore(heap[i] as DueThing, heap[above] as DueThing)) return;
      swap(heap, i, above);
      i = above;
    }
  }

  peek(): DueThing | undefined {
    return this.#heap[0];
  }

  take(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    heap[0] = last;
    for (let i = 0; ; ) {
      let first = i;
      for (const below of [2 * i + 1, 2 * i + 2]) {
        if (below < heap.length && isBefore(heap[below] as DueThing, heap[first] as DueThing)) first = below;
      }
      if (first === i) return;
      swap(heap, i, first);
      i = first;
    }
  }
}

function isBefore(a: DueThing, b: DueThing): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

function swap(heap: DueThing[], a: number, b: number): void {
  const held = heap[a] as DueThing;
  heap[a] = heap[b] as DueThing;
  heap[b] = held;
}
