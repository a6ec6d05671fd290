/** Values generated from a JSON schema: mostly valid, sometimes nearly, sometimes not at all. */
import type { Dice } from "../dice.ts";

export type Schema = Readonly<Record<string, unknown>>;

/** Texts that have broken other people's programs. */
const NASTY = [
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a stranger wrote it
  ..."\u0000,\ud800,\u202e,\r\nX-Evil: 1,../../etc/passwd,%2e%2e%2f,'; drop table job; --,{{7*7}},${7*7},<script>".split(
    ",",
  ),
  ...["", " ", "null", "-1", "1e400", "true", "__proto__", "constructor", "NaN", "a".repeat(5_000), "💥".repeat(100)],
  ...[
    "job_00000000000000000000000000",
    "ses_00000000000000000000000000",
    "30s",
    "10000y",
    "/",
    "\\",
    "*",
    "$(id)",
    "`id`",
  ],
] as const;

const ODD: readonly unknown[] = [
  ...[null, true, false, 0, -1, 1.5, 1e308, -1e308, 2 ** 53, 2 ** 31, [], {}, [[]], { a: { b: { c: 1 } } }, "x"],
];

export class Values {
  readonly #dice: Dice;
  /** Ids and the like that the server gave: a request with one gets further than one with a made-up one. */
  readonly #known: ReadonlyMap<string, readonly string[]>;

  constructor(dice: Dice, known: ReadonlyMap<string, readonly string[]>) {
    this.#dice = dice;
    this.#known = known;
  }

  /** `wild`: how likely each part is not as asked for. */
  of(schema: Schema, name: string, wild: number, depth = 0): unknown {
    const dice = this.#dice;
    if (dice.chance(wild)) return dice.chance(0.5) ? dice.pick(NASTY) : dice.pick(ODD);
    const known = this.#known.get(name);
    if (known !== undefined && known.length > 0 && dice.chance(0.8)) return dice.pick(known);
    const anyOf = schema.anyOf as readonly Schema[] | undefined;
    if (anyOf !== undefined) return this.of(dice.pick(anyOf) ?? {}, name, wild, depth);
    if (Array.isArray(schema.enum)) return dice.pick(schema.enum as unknown[]);
    switch (schema.type) {
      case "object":
        return this.#object(schema, name, wild, depth);
      case "array":
        return dice.times(this.#length(schema), () => this.of(schema.items as Schema, name, wild, depth + 1));
      case "string":
        return this.#text(schema);
      case "integer":
        return this.#between(schema.minimum, schema.maximum, 0, 1_000);
      case "number":
        return this.#between(schema.minimum, schema.maximum, 0, 1_000) + (dice.chance(0.2) ? dice.next() : 0);
      case "boolean":
        return dice.chance(0.5);
      case "null":
        return null;
      default:
        return depth > 4 || dice.chance(0.7)
          ? dice.pick([1, "a", null, true, "3s"])
          : { a: this.of({}, "", 0, depth + 1) };
    }
  }

  #object(schema: Schema, name: string, wild: number, depth: number): Record<string, unknown> {
    const dice = this.#dice;
    const made: Record<string, unknown> = {};
    const required = (schema.required ?? []) as readonly string[];
    for (const [field, inner] of Object.entries((schema.properties ?? {}) as Record<string, Schema>)) {
      const isWanted = required.includes(field) ? !dice.chance(wild / 2) : dice.chance(0.35);
      if (isWanted) made[field] = this.of(inner, field, wild, depth + 1);
    }
    const patterns = (schema.patternProperties ?? {}) as Record<string, Schema>;
    for (const inner of Object.values(patterns)) if (dice.chance(0.3)) made.gpu = this.of(inner, name, wild, depth + 1);
    if (dice.chance(wild)) made[String(dice.pick(NASTY))] = dice.pick(ODD);
    return made;
  }

  #text(schema: Schema): string {
    const dice = this.#dice;
    if (dice.chance(0.1)) return String(dice.pick(NASTY));
    const length = this.#between(schema.minLength, schema.maxLength, 1, 12);
    return dice.times(length, () => dice.pick([..."abcdefghijk-_ 0123456789é"] as [string, ...string[]])).join("");
  }

  /** Few as a rule: very many find nothing new, and generating them takes longer than answering them. */
  #length({ minItems, maxItems }: Schema): number {
    const many = this.#dice.chance(0.01) ? 300 : 4;
    return this.#dice.chance(0.02)
      ? 0
      : Math.min(300, this.#between(minItems, Math.min(many, Number(maxItems ?? many)), 0, many));
  }

  #between(min: unknown, max: unknown, from: number, to: number): number {
    const low = typeof min === "number" ? min : from;
    const high = Math.max(low, Math.min(typeof max === "number" ? max : to, Math.max(to, low)));
    if (this.#dice.chance(0.05)) return this.#dice.chance(0.5) ? low - 1 : (typeof max === "number" ? max : high) + 1;
    return low + this.#dice.below(high - low + 1);
  }
}
