/** The keys with which servers sign session keys and job tokens. They are not stored in the database, so that a copy of it cannot
 *  be used to forge them; the database has a fingerprint of the secret in use. Signatures contain the id of their key: while a
 *  secret is being replaced, the old and the new key are both accepted. Loading the secrets is done elsewhere. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { PerdureError } from "../core/errors.ts";

/** A secret, with the times from which it signs and until which it is accepted; null: no limit. */
export interface Secret {
  readonly text: string;
  readonly signsFrom: number | null;
  readonly until: number | null;
  /** It may have signed before keys had ids: signatures without a key id are checked with it. */
  readonly isUnnamed?: boolean;
}

interface SigningKey extends Secret {
  readonly id: string;
  readonly print: string;
}

/** `id_mac`; in earlier versions only the mac. */
const FORMAT = /^(?:([0-9a-f]{8})_)?([A-Za-z0-9_-]{43})$/;
const ID_LENGTH = 8;

/** The fingerprint of a secret, as stored in the database: it shows that two servers have the same secret, and does not reveal it. Its
 *  first characters are the key id. */
export function fingerprint(secret: string): string {
  return createHmac("sha256", secret).update("perdure:fingerprint").digest("hex");
}

export class KeyRing {
  readonly #now: () => number;
  #keys: readonly SigningKey[] = [];
  #byId = new Map<string, SigningKey>();
  readonly #retired = new Set<string>();
  /** The fingerprint in the store, if no key here has it. */
  #missing: string | null = null;
  /** Why the keys in the operator's file could not be loaded, with its path; null if nothing is wrong. */
  fault: string | null = null;

  /** Newest first. */
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

  /** The newest key that signs by now. */
  get current(): { readonly id: string; readonly print: string; readonly signsFrom: number | null } {
    return this.#current();
  }

  #current(): SigningKey {
    const now = this.#now();
    const isDue = ({ signsFrom, until }: SigningKey) => (signsFrom ?? now) <= now && (until === null || until > now);
    return this.#keys.find(isDue) ?? (this.#keys.at(-1) as SigningKey);
  }

  /** Whether one of the keys, even if not in use yet, has this fingerprint. */
  has(print: string): boolean {
    return this.#keys.some((key) => key.print === print);
  }

  /** Ids of keys that no longer sign, and are accepted for a limited time. */
  get retiring(): readonly string[] {
    const { id: current } = this.#current();
    return this.#keys
      .filter((key) => key.id !== current && key.until !== null && this.#isGood(key))
      .map(({ id }) => id);
  }

  /** No signature of this key is in use any more: it is not accepted from now on. */
  retire(id: string): void {
    this.#retired.add(id);
  }

  /** The fingerprint that the store has and this ring lacks; null if they agree. */
  set missing(print: string | null) {
    this.#missing = print;
  }
  get missing(): string | null {
    return this.#missing;
  }

  /** To be called before signing for a new caller: without the secret in use, other servers would not accept the signature. */
  requireInUse(): void {
    if (this.#missing !== null) throw new PerdureError("signing_key_missing", MISSING);
  }

  sign(text: string): string {
    const { id, text: secret } = this.#current();
    return `${id}_${mac(secret, `${id}:${text}`)}`;
  }

  /** Which key signed this: "former" for one that does not sign any more; null for none. */
  check(text: string, shown: string): "current" | "former" | null {
    const [, id, given = ""] = FORMAT.exec(shown) ?? [];
    if (id === undefined) {
      const isOne = this.#keys.some((key) => key.isUnnamed && this.#isGood(key) && isEqual(mac(key.text, text), given));
      return isOne ? "former" : null;
    }
    const key = this.#byId.get(id);
    if (key === undefined) {
      // Not "forbidden": the signature may be valid, and other servers can check it.
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
  "this server does not have the signing secret in use yet; nothing was done, retry or use another server";

function mac(secret: string, text: string): string {
  return createHmac("sha256", secret).update(text).digest("base64url");
}

function isEqual(expected: string, given: string): boolean {
  const [a, b] = [Buffer.from(expected), Buffer.from(given)];
  return a.length === b.length && timingSafeEqual(a, b);
}
