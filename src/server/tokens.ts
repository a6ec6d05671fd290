/** The tokens that this server knows, read from the store now and then and at once after a change made here, so that
 *  a call costs no query. Also counts wrong tokens by address, to slow down guessing. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { AccessToken, Scope } from "../core/access.ts";
import { type Clock, sleep } from "../lib/clock.ts";
import type { Store } from "../store/store.ts";
import type { ServerLog } from "./log.ts";

// The tokens that this server knows. They are read from the store now and then, and at once after a change made here,
// so that a call costs no question to the store, and a store that is away locks nobody out. A token revoked elsewhere
// is refused within about two seconds, not at once; calls that it holds open end at the same moment.

const REFRESH_MS = 2_000;
/** An id that nobody knows may be a second old: then the store is asked, but not by every wrong token. */
const ASK_AGAIN_MS = 250;
const ASK_WAIT_MS = 500;

/** Of a timer for a token's end; one further away is found by the next refresh after it. */
const MAX_TIMER_MS = 86_400_000;

const DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";
const FORMAT = /^pdr_([0-9a-z]{8})_[A-Za-z0-9_-]{43}$/;

/** Of a token whose id is not known: compared all the same, so that both take as long. */
const NOBODY = createHash("sha256").update("nobody").digest();

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
  /** Who asks for it. */
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
  #away = false;
  #closed = false;
  #cancel: () => void = () => {};
  /** By the id of a token: what is to be ended with it. */
  readonly #held = new Map<string, Set<() => void>>();

  private constructor(options: TokenBookOptions) {
    this.#options = options;
  }

  /** Reads all tokens, and again every two seconds until it is closed. */
  static async open(options: TokenBookOptions): Promise<TokenBook> {
    const book = new TokenBook(options);
    await book.#read();
    book.#later();
    return book;
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  /** Whose token this is; null if it is nobody's, revoked or over. */
  async verify(text: string): Promise<AccessToken | null> {
    const id = FORMAT.exec(text)?.[1];
    if (id !== undefined && !this.#known.has(id)) await this.#ask();
    const found = id === undefined ? undefined : this.#known.get(id);
    const given = createHash("sha256").update(text).digest();
    const fits = timingSafeEqual(given, found?.digest ?? NOBODY);
    return found !== undefined && fits && this.#isGood(found.token) ? found.token : null;
  }

  /** Whether a token that was good is so still: for calls that are held for long. */
  isStillGood(id: string): boolean {
    const found = this.#known.get(id);
    return found !== undefined && this.#isGood(found.token);
  }

  /** Calls back once when the token is revoked or over, as soon as this server knows; at once if it is so already. Returns the
   *  way to stop that. */
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

  /** The secret is in this answer and nowhere else. */
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

  /** False if there is none, or it was revoked before. */
  async revoke(id: string, by: string | null = null): Promise<boolean> {
    const { store, clock } = this.#options;
    const revoked = await store.tokens.revoke(id, clock.now(), by);
    // Here it is over at once, whether or not the store can be read now.
    this.#known.delete(id);
    this.#endHeld();
    await this.refresh();
    return revoked;
  }

  /** What is known goes on being known where the store cannot be read. */
  async refresh(): Promise<void> {
    // A read that is under way may have begun before the change that is to be seen.
    await this.#refreshing?.catch(() => {});
    await this.#readOrKeep();
  }

  #isGood(token: AccessToken): boolean {
    return token.revokedAt === null && (token.expiresAt === null || token.expiresAt > this.#options.clock.now());
  }

  async #ask(): Promise<void> {
    const { clock } = this.#options;
    if (clock.monotonic() - this.#refreshedAt < ASK_AGAIN_MS) return;
    await Promise.race([this.#readOrKeep(), sleep(clock, ASK_WAIT_MS, { background: true })]);
  }

  #readOrKeep(): Promise<void> {
    return this.#read().then(
      () => {
        this.#away = false;
      },
      (error: unknown) => {
        const { log } = this.#options;
        if (!this.#away && !this.#closed) log("warn", "cannot read the tokens; those known go on", { error });
        this.#away = true;
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

  #later(): void {
    const again = () => {
      this.#endHeld(); // those whose time has come, also while the store cannot be read
      void this.#readOrKeep().then(() => this.#closed || this.#later());
    };
    this.#cancel = this.#options.clock.after(REFRESH_MS, again, { background: true });
  }
}

// How many wrong tokens came from an address within a minute. It slows down guessing; a right token is never held up.
// It forgets the oldest addresses when there are very many, and counts for this server only.

const PER_MINUTE = 10;
const MINUTE_MS = 60_000;
const MAX_ADDRESSES = 10_000;

export class WrongTokens {
  readonly #clock: Clock;
  readonly #seen = new Map<string, { since: number; count: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts one more wrong token; true when there have been too many. */
  isOver(address: string): boolean {
    const key = networkOf(address);
    const now = this.#clock.monotonic();
    const entry = this.#seen.get(key);
    if (entry !== undefined && now - entry.since < MINUTE_MS) {
      entry.count += 1;
      return entry.count > PER_MINUTE;
    }
    this.#seen.delete(key); // set again at the end: the map's order is that of age
    this.#seen.set(key, { since: now, count: 1 });
    if (this.#seen.size > MAX_ADDRESSES) this.#seen.delete(this.#seen.keys().next().value as string);
    return false;
  }
}

/** One user of IPv6 has a whole network of addresses. */
export function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:/, "");
  if (!plain.includes(":")) return plain;
  const [head = "", tail] = plain.split("::");
  const groups = head.split(":");
  const filled = tail === undefined ? groups : [...groups, ...Array<string>(8).fill("0")];
  return filled.slice(0, 4).join(":");
}
