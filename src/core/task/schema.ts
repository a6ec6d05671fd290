/** Schemas of inputs: the interface of Standard Schema (https://standardschema.dev), which zod, valibot, arktype and others
 *  implement. It is copied, as the standard recommends, so there is no dependency. */

/** A schema of any library that follows Standard Schema, version 1.
 *  @example
 *  const schema: StandardSchema<{ url: string }> = z.object({ url: z.string() }); */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The input type of a schema: the input of `submit`.
 *  @example
 *  type Input = SchemaInput<typeof schema>; // { at: string } */
export type SchemaInput<Schema extends StandardSchema> = NonNullable<Schema["~standard"]["types"]>["input"];

/** The output type of a schema: what the handler receives.
 *  @example
 *  type Received = SchemaOutput<typeof schema>; // { at: Date } */
export type SchemaOutput<Schema extends StandardSchema> = NonNullable<Schema["~standard"]["types"]>["output"];

/** The limit of issues in a message. */
const SHOWN = 5;

/** The output of the schema, or its issues as text. Throws what the schema throws. */
export async function validated(
  schema: StandardSchema,
  value: unknown,
): Promise<{ readonly value: unknown } | { readonly problem: string }> {
  const result = await schema["~standard"].validate(value);
  if (!result.issues) return { value: result.value };
  const shown = result.issues.slice(0, SHOWN).map(issueText);
  const more = result.issues.length - shown.length;
  return { problem: shown.join("; ") + (more > 0 ? `; and ${more} more` : "") };
}

function issueText({ message, path = [] }: SchemaIssue): string {
  const at = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
  return at === "" ? message : `${at}: ${message}`;
}
