/** Ids: UUIDv7 (time, then random bits) written as 26 characters of Crockford's base32. Ids made later sort later;
 *  within one millisecond a counter keeps the order. An id is no secret. */

const DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";

export interface IdSource {
  readonly now: () => number;
  /** Fills with random bytes. */
  readonly randomBytes: (bytes: Uint8Array) => void;
}

/** A maker of ids: `make("job")` gives `job_01j…`. */
export function idMaker({ now, randomBytes }: IdSource): (prefix: string) => string {
  const pool = new Uint8Array(4_096);
  let used = pool.length;
  let lastMs = 0;
  let counter = 0;

  return (prefix) => {
    if (used + 10 > pool.length) {
      randomBytes(pool);
      used = 0;
    }
    const r = pool.subarray(used, used + 10);
    used += 10;
    const ms = now();
    if (ms > lastMs) {
      lastMs = ms;
      counter = (((r[0] as number) & 0x07) << 8) | (r[1] as number); // 11 random bits leave room to count up
    } else {
      counter += 1;
      if (counter > 0xfff) {
        lastMs += 1;
        counter = 0;
      }
    }
    return `${prefix}_${encode(lastMs, counter, r)}`;
  };
}

/** 48 bits of time, version 7, 12 bits of counter, variant, 62 random bits: 128 bits, five at a time. */
function encode(ms: number, counter: number, r: Uint8Array): string {
  const bytes = [
    ...[ms / 2 ** 40, ms / 2 ** 32, ms / 2 ** 24, ms / 2 ** 16, ms / 2 ** 8, ms].map((part) => Math.floor(part) % 256),
    0x70 | (counter >> 8),
    counter & 0xff,
    0x80 | ((r[2] as number) & 0x3f),
    ...r.subarray(3, 10),
  ];
  let text = "";
  let bits = 2; // 26 digits hold 130 bits: two zero bits lead
  let value = 0;
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += DIGITS[(value >> bits) & 31];
    }
    value &= (1 << bits) - 1;
  }
  return text;
}

const FORMAT = /^[a-z]{3}_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

export function isId(text: string, prefix: string): boolean {
  return FORMAT.test(text) && text.startsWith(`${prefix}_`);
}
