/** A map bounded by the bytes of its values. When it is full, entries that were not read since the last eviction go
 *  first, oldest first: a read only sets a flag, because the hottest paths read here. */

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

  /** A value larger than the whole cache is not stored. */
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

  /** Evicts down to nine tenths, so that a full cache is not scanned for each new entry. */
  #makeRoom(): void {
    const goal = this.#maxBytes * 0.9;
    // Entries that were read since move to the end, once.
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
