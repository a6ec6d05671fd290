/** A cache of all tokens, refreshed every two seconds and after each change made here, so that a call needs no query, and an outage
 *  of the store locks no one out. A token that was revoked by another server is refused within about two seconds; calls that it
 *  holds open end at the same time. Also counts wrong tokens by address, to slow down guessing. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { AccessToken, Scope } from "../core/access.ts";
import { type Clock, sleep } from "../lib/clock.ts";
import type { Store } from "../store/store.ts";
import type { ServerLog } from "./log.ts";

const REFRESH_MS = 2_000;
/** An unknown id may be of a token created moments ago: then the tokens are read again, but at most this often. */
const REREAD_MS = 250;
const REREAD_WAIT_MS = 500;

/** The longest timer for a token's end; later ends are found by a refresh. */
const MAX_TIMER_MS = 86_400_000;

const DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";
const FORMAT = /^pdr_([0-9a-z]{8})_[A-Za-z0-9_-]{43}$/;

/** Compared for an unknown id, so that the check takes as long as for a known one. */
const NO_DIGEST = createHash("sha256").update("nobody").digest();

type RandomBytes = (count: number) => Uint8Array;

/** `pdr_`, 8 characters of id, `_`, 43 characters of secret. */
export function newToken(randomBytes: RandomBytes): { readonly id: string; readonly token: string } {
  const id = Array.from(randomBytes(8), (byte) => DIGITS[byte & 31]).join("");
  return { id, token: `pdr_${id}_${Buffer.from(randomBytes(32)).toString("base64url")}` };
}

export function hashOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

interface TokenToCreate {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly namespace: string | null;
  readonly expiresInMs: number | null;
  /** The creator, for the event. */
  readonly by?: string;
}

interface TokenBookOptions {
  readonly store: Pick<Store, "tokens">;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly log: ServerLog;
}

export class TokenBook {
  readonly #options: TokenBookOptions;
  #known = new Map<string, { readonly token: AccessToken; readonly digest: Buffer }>();
  #refreshing: Promise<void> | null = null;
  #refreshedAt = Number.NEGATIVE_INFINITY;
  #isOutage = false;
  #closed = false;
  #cancel: () => void = () => {};
  /** By token id: listeners for its end. */
  readonly #held = new Map<string, Set<() => void>>();

  private constructor(options: TokenBookOptions) {
    this.#options = options;
  }

  /** Reads all tokens, and refreshes them until it is closed. */
  static async open(options: TokenBookOptions): Promise<TokenBook> {
    const book = new TokenBook(options);
    await book.#read();
    book.#schedule();
    return book;
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  /** The token; null if it is unknown, revoked or expired. */
  async verify(text: string): Promise<AccessToken | null> {
    const id = FORMAT.exec(text)?.[1];
    if (id !== undefined && !this.#known.has(id)) await this.#reread();
    const found = id === undefined ? undefined : this.#known.get(id);
    const given = createHash("sha256").update(text).digest();
    const matches = timingSafeEqual(given, found?.digest ?? NO_DIGEST);
    return found !== undefined && matches && this.#isGood(found.token) ? found.token : null;
  }

  /** Whether a token that was valid still is: for calls that are held for long. */
  isStillGood(id: string): boolean {
    const found = this.#known.get(id);
    return found !== undefined && this.#isGood(found.token);
  }

  /** Calls back once when the token is revoked or has expired, as soon as this server knows; at once if it already has. Returns a
   *  function that removes the listener. */
  onEnd(id: string, listener: () => void): () => void {
    if (!this.isStillGood(id)) {
      listener();
      return () => {};
    }
    const held = this.#held.get(id) ?? new Set();
    this.#held.set(id, held.add(listener));
    const { clock } = this.#options;
    const expiresAt = this.#known.get(id)?.token.expiresAt ?? null;
    const ms = expiresAt === null ? null : Math.min(expiresAt - clock.now(), MAX_TIMER_MS);
    const cancel = ms === null ? () => {} : clock.after(ms, () => this.#endHeld(), { background: true });
    return () => {
      cancel();
      held.delete(listener);
      if (held.size === 0 && this.#held.get(id) === held) this.#held.delete(id);
    };
  }

  #endHeld(): void {
    for (const [id, listeners] of [...this.#held]) {
      if (this.isStillGood(id)) continue;
      this.#held.delete(id);
      for (const listener of [...listeners]) listener();
    }
  }

  /** The returned value is the only copy of the secret. */
  async create(wanted: TokenToCreate): Promise<{ readonly token: string; readonly info: AccessToken }> {
    const { store, clock, randomBytes } = this.#options;
    const { name, scopes, namespace, expiresInMs } = wanted;
    const { id, token } = newToken(randomBytes);
    const now = clock.now();
    const expiresAt = expiresInMs === null ? null : now + expiresInMs;
    const info: AccessToken = {
      ...{ id, name, hash: hashOf(token), scopes: [...new Set(scopes)], namespace },
      ...{ createdAt: now, expiresAt, revokedAt: null },
    };
    await store.tokens.add(info, wanted.by ?? null);
    await this.refresh();
    return { token, info };
  }

  list(): Promise<AccessToken[]> {
    return this.#options.store.tokens.list();
  }

  /** False if it does not exist, or was revoked before. */
  async revoke(id: string, by: string | null = null): Promise<boolean> {
    const { store, clock } = this.#options;
    const revoked = await store.tokens.revoke(id, clock.now(), by);
    // On this server it ends at once, even if the store cannot be read now.
    this.#known.delete(id);
    this.#endHeld();
    await this.refresh();
    return revoked;
  }

  /** While the store cannot be read, the known tokens stay valid. */
  async refresh(): Promise<void> {
    // A read in progress may have started before the change.
    await this.#refreshing?.catch(() => {});
    await this.#readOrKeep();
  }

  #isGood(token: AccessToken): boolean {
    return token.revokedAt === null && (token.expiresAt === null || token.expiresAt > this.#options.clock.now());
  }

  async #reread(): Promise<void> {
    const { clock } = this.#options;
    if (clock.monotonic() - this.#refreshedAt < REREAD_MS) return;
    await Promise.race([this.#readOrKeep(), sleep(clock, REREAD_WAIT_MS, { background: true })]);
  }

  #readOrKeep(): Promise<void> {
    return this.#read().then(
      () => {
        this.#isOutage = false;
      },
      (error: unknown) => {
        const { log } = this.#options;
        if (!this.#isOutage && !this.#closed) log("warn", "cannot read tokens, known tokens stay valid", { error });
        this.#isOutage = true;
      },
    );
  }

  #read(): Promise<void> {
    this.#refreshing ??= this.#readOnce().finally(() => {
      this.#refreshing = null;
    });
    return this.#refreshing;
  }

  async #readOnce(): Promise<void> {
    this.#refreshedAt = this.#options.clock.monotonic();
    const tokens = await this.#options.store.tokens.list();
    this.#known = new Map(tokens.map((token) => [token.id, { token, digest: Buffer.from(token.hash, "hex") }]));
    this.#endHeld();
  }

  #schedule(): void {
    const refresh = () => {
      this.#endHeld(); // expired tokens, also while the store cannot be read
      void this.#readOrKeep().then(() => this.#closed || this.#schedule());
    };
    this.#cancel = this.#options.clock.after(REFRESH_MS, refresh, { background: true });
  }
}

const PER_MINUTE = 10;
const MINUTE_MS = 60_000;
const MAX_ADDRESSES = 10_000;

/** Counts wrong tokens per address and minute, to slow down guessing; a valid token is never delayed. Remembers a limited number of
 *  addresses, and counts for this server only. */
export class WrongTokens {
  readonly #clock: Clock;
  readonly #seen = new Map<string, { since: number; count: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a wrong token; true if there have been too many. */
  isOver(address: string): boolean {
    const key = networkOf(address);
    const now = this.#clock.monotonic();
    const entry = this.#seen.get(key);
    if (entry !== undefined && now - entry.since < MINUTE_MS) {
      entry.count += 1;
      return entry.count > PER_MINUTE;
    }
    this.#seen.delete(key); // moves the entry to the end: the map is in order of age
    this.#seen.set(key, { since: now, count: 1 });
    if (this.#seen.size > MAX_ADDRESSES) this.#seen.delete(this.#seen.keys().next().value as string);
    return false;
  }
}

/** The /64 network of an IPv6 address, since one user has all of its addresses; an IPv4 address itself. */
export function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:/, "");
  if (!plain.includes(":")) return plain;
  const [head = "", tail] = plain.split("::");
  const groups = head.split(":");
  const filled = tail === undefined ? groups : [...groups, ...Array<string>(8).fill("0")];
  return filled.slice(0, 4).join(":");
}
