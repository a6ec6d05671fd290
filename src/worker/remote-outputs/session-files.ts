/** Files of attempts on the server, in the name of the session that holds the attempt. */
import { HEADER } from "../../contract/wire.ts";
import { isForbidden, isGone } from "../../wire/repeat.ts";
import type { RunningAttempt } from "../exec/exec-executor.ts";
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

/** A piece of a staged upload, which replaces a file when it is complete. */
export interface StagedPiece {
  readonly upload: number;
  readonly last: boolean;
}

export type SessionLookup = (id: string) => { readonly key: string; readonly isCurrent: boolean } | null;

/** An offset beyond the end of any file. */
const BEYOND = Number.MAX_SAFE_INTEGER;

export class SessionFiles {
  readonly parts: LinkParts;
  readonly #sessionOf: SessionLookup;

  constructor(parts: LinkParts, sessionOf: SessionLookup) {
    this.parts = parts;
    this.#sessionOf = sessionOf;
  }

  /** Writes bytes at an offset; returns the size of the file afterwards. */
  async write(
    running: RunningAttempt,
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
    const call = { params: paramsOf(running), rest: name, query, headers: this.#headers(running), body };
    const { size } = await this.parts.calls.json<{ size: number }>("writeOutput", call);
    this.parts.outage.answered();
    return size;
  }

  /** The size of a file on the server: an empty write far beyond its end changes nothing and returns the size. */
  sizeOf(running: RunningAttempt, name: string, upload?: number): Promise<number> {
    const staged = upload === undefined ? undefined : { upload, last: false };
    return this.write(running, name, BEYOND, Buffer.alloc(0), staged);
  }

  /** Removes a file, or only a staged upload of it. */
  async remove(running: RunningAttempt, name: string, upload?: number): Promise<void> {
    const call = { params: paramsOf(running), rest: name, headers: this.#headers(running) };
    const query = new URLSearchParams(upload === undefined ? {} : { upload: String(upload) });
    await this.parts.calls.json("removeOutput", { ...call, query });
    this.parts.outage.answered();
  }

  /** A new upload number, so that pieces of two uploads never mix. */
  nextUpload(): number {
    this.#uploads += 1;
    return this.#uploads;
  }
  #uploads = 0;

  listEarlier(running: RunningAttempt): Promise<RemoteOutputs> {
    const params = { session: running.session, id: running.job.id };
    const call = { params, headers: this.#headers(running), signal: running.signal };
    return this.parts.calls.json<RemoteOutputs>("listEarlierOutputs", call);
  }

  readEarlier(running: RunningAttempt, attempt: number, name: string, offset: number): AsyncGenerator<Buffer> {
    const params = { session: running.session, id: running.job.id, attempt };
    const call = {
      params,
      rest: name,
      query: new URLSearchParams({ offset: String(offset) }),
      headers: this.#headers(running),
      signal: running.signal,
    };
    return this.parts.calls.bytes("readEarlierOutput", call);
  }

  /** Whether an error means that the session does not hold the attempt any more: its files are not needed. */
  isLost(running: RunningAttempt, error: unknown): boolean {
    return isGone(error) || (isForbidden(error) && this.#sessionOf(running.session)?.isCurrent !== true);
  }

  #headers({ session, job }: RunningAttempt): Record<string, string> {
    return { [HEADER.sessionKey]: this.#sessionOf(session)?.key ?? "", [HEADER.lease]: job.token };
  }
}

function paramsOf({ session, job }: RunningAttempt) {
  return { session, id: job.id, attempt: job.attempt };
}
