/** Assets of a worker: content that is stored once with a playbook, such as the code of its python steps. Fetched by SHA-256 and
 *  checked by it, then kept in memory up to a limit, so that 10,000 jobs with one code fetch it once. */
import { createHash } from "node:crypto";
import { MIB } from "../core/input/resources.ts";
import type { EngineLink } from "./engine-link.ts";

/** No attempt could have this content: it does not exist, or it is not what its name promises. */
export class AssetError extends Error {
  readonly code = "asset_missing";
}

const MAX_KEPT_BYTES = 16 * MIB;
/** Of all calls in progress; each is shared by the attempts that need the same asset. */
type Fetch = Promise<Uint8Array>;

export class Assets {
  readonly #link: Pick<EngineLink, "asset">;
  readonly #maxBytes: number;
  /** The least recently used first. */
  readonly #kept = new Map<string, Uint8Array>();
  readonly #fetching = new Map<string, Fetch>();
  #bytes = 0;

  constructor(link: Pick<EngineLink, "asset">, maxBytes = MAX_KEPT_BYTES) {
    this.#link = link;
    this.#maxBytes = maxBytes;
  }

  /** Throws an `AssetError` if it does not exist. Aborting `signal` ends this wait, not the fetch that others share. */
  async get(hash: string, signal: AbortSignal): Promise<Uint8Array> {
    const kept = this.#kept.get(hash);
    if (kept !== undefined) {
      this.#kept.delete(hash);
      this.#kept.set(hash, kept);
      return kept;
    }
    let fetching = this.#fetching.get(hash);
    if (fetching === undefined) {
      fetching = this.#fetch(hash).finally(() => this.#fetching.delete(hash));
      fetching.catch(() => {}); // all who wait for it may have been aborted
      this.#fetching.set(hash, fetching);
    }
    return orAborted(fetching, signal);
  }

  async #fetch(hash: string): Fetch {
    const found = (await this.#link.asset?.(hash)) ?? null;
    if (found === null) throw new AssetError(`the asset ${hash} does not exist on the server`);
    const actual = createHash("sha256").update(found).digest("hex");
    if (actual !== hash) throw new Error(`the asset ${hash} was not received intact: its SHA-256 is ${actual}`);
    this.#keep(hash, found);
    return found;
  }

  #keep(hash: string, bytes: Uint8Array): void {
    if (bytes.length > this.#maxBytes) return;
    this.#kept.set(hash, bytes);
    this.#bytes += bytes.length;
    for (const [oldest, content] of this.#kept) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#kept.delete(oldest);
      this.#bytes -= content.length;
    }
  }
}

function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new Error("stopped while an asset was fetched"));
    if (signal.aborted) return stop();
    signal.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
