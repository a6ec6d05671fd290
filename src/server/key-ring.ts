/** The keys with which servers sign what they hand out: session keys and job tokens. They come from outside the database, so
 *  that a copy of it forges nothing; the database has a fingerprint of the one in use. What is signed names its key: while a
 *  secret is replaced, the old key and the new are both accepted. Where keys come from and how they get here is not known here. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { PerdureError } from "../core/errors.ts";

/** A secret, and from when it signs and until when it is accepted; null: always. */
export interface Secret {
  readonly text: string;
  readonly signsFrom: number | null;
  readonly until: number | null;
  /** It signed before keys had ids: what does not name its key may be of this one. */
  readonly isUnnamed?: boolean;
}

interface SigningKey extends Secret {
  readonly id: string;
  readonly print: string;
}

/** `id_mac`; of earlier versions the mac alone. */
const FORMAT = /^(?:([0-9a-f]{8})_)?([A-Za-z0-9_-]{43})$/;
const ID_LENGTH = 8;

/** What the store may know of a secret: it proves that two servers have the same, and forges nothing. Its first characters
 *  are the id of the key. */
export function fingerprint(secret: string): string {
  return createHmac("sha256", secret).update("perdure:fingerprint").digest("hex");
}

export class KeyRing {
  readonly #now: () => number;
  #keys: readonly SigningKey[] = [];
  #byId = new Map<string, SigningKey>();
  readonly #retired = new Set<string>();
  /** The fingerprint in the store, where no key here has it. */
  #missing: string | null = null;
  /** Why the keys here are not those that the operator wrote, with the path of their file; null if nothing is wrong. */
  fault: string | null = null;

  /** The newest first. */
  constructor(secrets: readonly Secret[], now: () => number) {
    this.#now = now;
    this.replace(secrets);
  }

  replace(secrets: readonly Secret[]): void {
    if (secrets.length === 0) throw new Error("a server needs a secret to sign with");
    this.#keys = secrets.map((secret) => {
      const print = fingerprint(secret.text);
      return { ...secret, print, id: print.slice(0, ID_LENGTH) };
    });
    this.#byId = new Map(this.#keys.map((key) => [key.id, key]));
    this.#retired.clear();
  }

  /** The newest whose time to sign has come. */
  get current(): { readonly id: string; readonly print: string; readonly signsFrom: number | null } {
    return this.#current();
  }

  #current(): SigningKey {
    const now = this.#now();
    const isDue = ({ signsFrom, until }: SigningKey) => (signsFrom ?? now) <= now && (until === null || until > now);
    return this.#keys.find(isDue) ?? (this.#keys.at(-1) as SigningKey);
  }

  /** Whether one of the keys, whatever its time, has this fingerprint. */
  has(print: string): boolean {
    return this.#keys.some((key) => key.print === print);
  }

  /** Ids of keys that are only accepted, and not for ever. */
  get retiring(): readonly string[] {
    const { id: current } = this.#current();
    return this.#keys
      .filter((key) => key.id !== current && key.until !== null && this.#isGood(key))
      .map(({ id }) => id);
  }

  /** Nobody has anything signed with this key any more. */
  retire(id: string): void {
    this.#retired.add(id);
  }

  /** What the store has and this ring has not; null: they agree. */
  set missing(print: string | null) {
    this.#missing = print;
  }
  get missing(): string | null {
    return this.#missing;
  }

  /** Before anything is signed for somebody new: other servers would not accept it, nor this one after its next start. */
  requireInUse(): void {
    if (this.#missing !== null) throw new PerdureError("signing_key_missing", MISSING);
  }

  sign(text: string): string {
    const { id, text: secret } = this.#current();
    return `${id}_${mac(secret, `${id}:${text}`)}`;
  }

  /** Whether this was signed here, and with which key: one that does not sign any more is "former". */
  check(text: string, shown: string): "current" | "former" | null {
    const [, id, given = ""] = FORMAT.exec(shown) ?? [];
    if (id === undefined) {
      const isOne = this.#keys.some((key) => key.isUnnamed && this.#isGood(key) && isEqual(mac(key.text, text), given));
      return isOne ? "former" : null;
    }
    const key = this.#byId.get(id);
    if (key === undefined) {
      // Not "forbidden": it is good, and another server knows it.
      if (this.#missing?.startsWith(id)) throw new PerdureError("signing_key_missing", MISSING);
      return null;
    }
    if (!this.#isGood(key) || !isEqual(mac(key.text, `${id}:${text}`), given)) return null;
    return id === this.#current().id ? "current" : "former";
  }

  #isGood({ id, until }: SigningKey): boolean {
    return (until === null || until > this.#now()) && !this.#retired.has(id);
  }
}

const MISSING =
  "this server does not have the signing secret in use yet; nothing was done, try again or ask another server";

function mac(secret: string, text: string): string {
  return createHmac("sha256", secret).update(text).digest("base64url");
}

function isEqual(expected: string, given: string): boolean {
  const [a, b] = [Buffer.from(expected), Buffer.from(given)];
  return a.length === b.length && timingSafeEqual(a, b);
}
