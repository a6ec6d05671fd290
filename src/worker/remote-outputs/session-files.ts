/** Files of attempts on the server, in the name of the session that holds the attempt. */
import { HEADER } from "../../contract/wire.ts";
import { isForbidden, isGone } from "../../wire/repeat.ts";
import type { AttemptDirectory } from "../exec/exec-executor.ts";
import type { LinkParts } from "../http-link/link-parts.ts";

export interface RemoteFile {
  readonly name: string;
  readonly size: number;
}

export interface RemoteOutputs {
  readonly attempts: readonly {
    readonly attempt: number;
    readonly files: readonly RemoteFile[];
    readonly more: number;
  }[];
}

/** A piece of what is to replace a file as a whole. */
export interface StagedPiece {
  readonly upload: number;
  readonly last: boolean;
}

export type SessionLookup = (id: string) => { readonly key: string; readonly isCurrent: boolean } | null;

/** No file is so long. */
const BEYOND = Number.MAX_SAFE_INTEGER;

export class SessionFiles {
  readonly parts: LinkParts;
  readonly #sessionOf: SessionLookup;

  constructor(parts: LinkParts, sessionOf: SessionLookup) {
    this.parts = parts;
    this.#sessionOf = sessionOf;
  }

  /** Puts bytes at an offset; the answer is the size that the file has then. */
  async write(
    placed: AttemptDirectory,
    name: string,
    offset: number,
    body: Uint8Array,
    staged?: StagedPiece,
  ): Promise<number> {
    const query = new URLSearchParams({ offset: String(offset) });
    if (staged !== undefined) {
      query.set("upload", String(staged.upload));
      query.set("last", String(staged.last));
    }
    const ask = { params: paramsOf(placed), rest: name, query, headers: this.#headers(placed), body };
    const { size } = await this.parts.calls.json<{ size: number }>("writeOutput", ask);
    this.parts.outage.answered();
    return size;
  }

  /** The size that a file has on the server. A piece of nothing far beyond its end changes nothing, and is told it. */
  sizeOf(placed: AttemptDirectory, name: string, upload?: number): Promise<number> {
    const staged = upload === undefined ? undefined : { upload, last: false };
    return this.write(placed, name, BEYOND, Buffer.alloc(0), staged);
  }

  /** Removes a file, or only what an upload has staged for it. */
  async remove(placed: AttemptDirectory, name: string, upload?: number): Promise<void> {
    const ask = { params: paramsOf(placed), rest: name, headers: this.#headers(placed) };
    const query = new URLSearchParams(upload === undefined ? {} : { upload: String(upload) });
    await this.parts.calls.json("removeOutput", { ...ask, query });
    this.parts.outage.answered();
  }

  /** Names what is staged: pieces of two uploads never mix. */
  nextUpload(): number {
    this.#uploads += 1;
    return this.#uploads;
  }
  #uploads = 0;

  listEarlier(placed: AttemptDirectory): Promise<RemoteOutputs> {
    const params = { session: placed.session, id: placed.job.id };
    const ask = { params, headers: this.#headers(placed), signal: placed.signal };
    return this.parts.calls.json<RemoteOutputs>("listEarlierOutputs", ask);
  }

  readEarlier(placed: AttemptDirectory, attempt: number, name: string, offset: number): AsyncGenerator<Buffer> {
    const params = { session: placed.session, id: placed.job.id, attempt };
    const ask = {
      params,
      rest: name,
      query: new URLSearchParams({ offset: String(offset) }),
      headers: this.#headers(placed),
      signal: placed.signal,
    };
    return this.parts.calls.bytes("readEarlierOutput", ask);
  }

  /** The attempt is not, or no longer, in the hands of its session: nobody wants its files. */
  isLost(placed: AttemptDirectory, error: unknown): boolean {
    return isGone(error) || (isForbidden(error) && this.#sessionOf(placed.session)?.isCurrent !== true);
  }

  #headers({ session, job }: AttemptDirectory): Record<string, string> {
    return { [HEADER.sessionKey]: this.#sessionOf(session)?.key ?? "", [HEADER.lease]: job.token };
  }
}

function paramsOf({ session, job }: AttemptDirectory) {
  return { session, id: job.id, attempt: job.attempt };
}
