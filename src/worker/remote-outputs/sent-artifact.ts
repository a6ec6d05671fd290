/** Uploads a file of a running command. The command may do anything with it: append, rewrite, or replace it. So what the server
 *  has is identified by its hash. If the file still begins with that, only the rest is sent; otherwise the whole file is staged
 *  and replaces the old one at once, so that the server never shows half of a file that was complete here. Not promised: that a
 *  file which changes all the time is a consistent snapshot before the command has ended. */
import { createHash, type Hash } from "node:crypto";
import type { BigIntStats } from "node:fs";
import { type FileHandle, lstat } from "node:fs/promises";
import { openPlain } from "../../files/plain-files.ts";
import { WireError } from "../../wire/wire-error.ts";
import type { RunningAttempt } from "../exec/exec-executor.ts";
import { PIECE, PieceWriter } from "./sent-file.ts";
import type { SessionFiles } from "./session-files.ts";

/** A file that keeps changing is sent this often, and less often the larger it is, since it is read from the start each time. */
const CHANGING_MS = 5_000;
const CHANGING_BYTES = 64 * 1_048_576;
/** A file written more recently than this may change again without a new modification time. */
const SURE_MS = 1_000;
/** Uploads of a staged file if the server loses it. */
const TRIES = 3;
const READ = 262_144;

/** Identifies a state of a file, nearly always. */
interface FileVersion {
  readonly id: string;
  readonly size: number;
  /** Whether the same id means the same bytes. */
  readonly isSure: boolean;
}

interface SendOptions {
  readonly isSteady: boolean;
  readonly mayBeSent?: (() => Promise<boolean>) | undefined;
}

export class SentArtifact {
  readonly name: string;
  readonly #path: string;
  readonly #owner: number | undefined;
  readonly #files: SessionFiles;
  readonly #running: RunningAttempt;
  readonly #writer: PieceWriter;
  /** The version at the last check. */
  #seen = "";
  #changedAt = 0;
  /** The version that the server has, and its bytes; null where it has none. */
  #sent: { readonly version: FileVersion; readonly size: number; readonly sha256: string } | null = null;
  /** The id of a version that is over the server's limit. */
  #over: string | null = null;

  constructor(files: SessionFiles, running: RunningAttempt, name: string, path: string, owner?: number) {
    this.#files = files;
    this.#running = running;
    this.#writer = new PieceWriter(files, running, name);
    this.name = name;
    this.#path = path;
    this.#owner = owner;
  }

  get isSent(): boolean {
    return this.#sent !== null;
  }

  /** Whether the server has the present version, or the file does not exist. */
  async isCurrent(): Promise<boolean> {
    const stats = await lstat(this.#path, { bigint: true }).catch(() => null);
    return stats === null || !stats.isFile() || this.#version(stats).id === this.#sent?.version.id;
  }

  /** Sends the file if it is new and has not changed since the last check, or has been changing for long. With `mayBeSent`, only
   *  if that agrees, and never while the file is changing. */
  async sync({ mayBeSent }: { readonly mayBeSent?: () => Promise<boolean> } = {}): Promise<void> {
    const stats = await lstat(this.#path, { bigint: true }).catch(() => null);
    if (stats === null || !stats.isFile()) return;
    const { clock } = this.#files.parts;
    const { id, size } = this.#version(stats);
    if (id === this.#sent?.version.id || id === this.#over) return;
    if (id === this.#seen) return this.#send({ isSteady: true, mayBeSent });
    if (this.#seen === "" || this.#seen === this.#sent?.version.id) this.#changedAt = clock.monotonic();
    this.#seen = id;
    if (mayBeSent !== undefined) return;
    const pauseMs = CHANGING_MS * Math.max(1, size / CHANGING_BYTES);
    if (clock.monotonic() - this.#changedAt < pauseMs) return;
    this.#changedAt = clock.monotonic();
    await this.#send({ isSteady: false });
  }

  /** The command has ended: sends the file as it is. A repeated call resumes after an error. */
  finish(): Promise<void> {
    return this.#send({ isSteady: false });
  }

  /** Removes the file from the server. */
  async remove(): Promise<void> {
    await this.#files.remove(this.#running, this.name);
    this.#sent = null;
  }

  /** The present version is over the server's limit: an older version is removed, since it would be taken for this one. */
  async markOverLimit(): Promise<void> {
    this.#over = this.#seen;
    if (this.#sent !== null) await this.remove();
  }

  async #send({ isSteady, mayBeSent }: SendOptions): Promise<void> {
    const file = await openPlain(this.#path, this.#owner);
    if (file === null) return;
    try {
      const version = this.#version(await file.stat({ bigint: true }));
      const { version: before } = this.#sent ?? {};
      if (before?.id === version.id && before.isSure) return;
      if (mayBeSent !== undefined && !(await mayBeSent())) return;
      if (!(await this.#append(file, version))) await this.#replace(file, version, isSteady);
    } finally {
      await file.close();
    }
  }

  /** If the file begins with what the server has, sends the rest; else returns false. */
  async #append(file: FileHandle, version: FileVersion): Promise<boolean> {
    const { size, sha256 } = this.#sent ?? { size: 0, sha256: "" };
    if (this.#sent === null || version.size < size) return false;
    const hash = await hashOf(file, size);
    if (hash === null || hash.copy().digest("hex") !== sha256) return false;
    let at = size;
    while (at < version.size) {
      const piece = await this.#read(file, at, version.size - at);
      if (piece.length === 0) break;
      const has = await this.#writer.write(at, piece);
      if (has !== at + piece.length) {
        this.#sent = null; // the server has lost a part
        return false;
      }
      hash.update(piece);
      at = has;
      this.#sent = { version: { ...version, id: "" }, size: at, sha256: hash.copy().digest("hex") };
    }
    this.#sent = { version, size: at, sha256: hash.digest("hex") };
    return true;
  }

  async #replace(file: FileHandle, version: FileVersion, isSteady: boolean): Promise<void> {
    for (let left = TRIES; left > 0; left--) if (await this.#upload(file, version, isSteady)) return;
    const message = `${this.name}: the server keeps losing the uploaded file`;
    throw new WireError("server_unreachable", message);
  }

  /** Stages the whole file and publishes it. False if the server has lost a part of it. */
  async #upload(file: FileHandle, version: FileVersion, isSteady: boolean): Promise<boolean> {
    const upload = this.#files.nextUpload();
    const hash = createHash("sha256");
    for (let at = 0; ; ) {
      const piece = await this.#read(file, at, version.size - at);
      const last = at + piece.length >= version.size || piece.length === 0;
      if (last && isSteady && this.#version(await file.stat({ bigint: true })).id !== version.id) {
        // The file has changed: what was read may be a mix of two versions. It is sent when it is steady again.
        await this.#files.remove(this.#running, this.name, upload);
        return true;
      }
      const has = await this.#writer.write(at, piece, { upload, last });
      if (has !== at + piece.length) return false;
      hash.update(piece);
      at = has;
      if (!last) continue;
      this.#sent = { version, size: at, sha256: hash.digest("hex") };
      return true;
    }
  }

  async #read(file: FileHandle, at: number, most: number): Promise<Buffer> {
    const length = Math.min(PIECE, this.#writer.size, Math.max(0, most));
    if (length === 0) return Buffer.alloc(0);
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, at);
    return buffer.subarray(0, bytesRead);
  }

  #version({ dev, ino, size, mtimeNs, ctimeNs, ctimeMs }: BigIntStats): FileVersion {
    const isSure = this.#files.parts.clock.now() - Number(ctimeMs) > SURE_MS;
    return { id: `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`, size: Number(size), isSure };
  }
}

/** The hash of the first `size` bytes of a file; null if it has fewer. */
async function hashOf(file: FileHandle, size: number): Promise<Hash | null> {
  const hash = createHash("sha256");
  const buffer = Buffer.allocUnsafe(Math.min(READ, Math.max(1, size)));
  for (let at = 0; at < size; ) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, size - at), at);
    if (bytesRead === 0) return null;
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
  return hash;
}
