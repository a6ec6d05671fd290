/** A map that is bounded by the bytes of what it holds. When it is full, entries that were not read since they were last passed
 *  over go first, oldest first: a read sets a flag and moves nothing, as the hottest paths read here. */

interface ByteCacheEntry<V> {
  readonly value: V;
  readonly bytes: number;
  used: boolean;
}

export class ByteCache<K, V> {
  readonly #entries = new Map<K, ByteCacheEntry<V>>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }
  get size(): number {
    return this.#entries.size;
  }

  get(key: K): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    entry.used = true;
    return entry.value;
  }

  /** One that is larger than all of the cache is not kept. */
  set(key: K, value: V, bytes: number): void {
    this.delete(key);
    if (bytes > this.#maxBytes) return;
    this.#entries.set(key, { value, bytes, used: false });
    this.#bytes += bytes;
    if (this.#bytes > this.#maxBytes) this.#makeRoom();
  }

  delete(key: K): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
  }

  clear(): void {
    this.#entries.clear();
    this.#bytes = 0;
  }

  /** To nine tenths, so that a full cache is not walked through for each entry that comes. */
  #makeRoom(): void {
    const goal = this.#maxBytes * 0.9;
    // What was read since goes to the end of the line, once.
    for (const [key, entry] of this.#entries) {
      if (this.#bytes <= goal) return;
      this.#entries.delete(key);
      if (entry.used) {
        entry.used = false;
        this.#entries.set(key, entry);
      } else this.#bytes -= entry.bytes;
    }
  }
}
