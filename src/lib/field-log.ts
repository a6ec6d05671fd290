/** A log whose lines have fields beside the message. */

export type FieldLog = (
  level: "error" | "warn" | "info",
  message: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

/** Fields as text, for loggers that take a message alone. */
export function withFields(message: string, fields: Readonly<Record<string, unknown>> = {}): string {
  const pairs = Object.entries(fields).map(([name, value]) => ` ${name}=${JSON.stringify(value) ?? "null"}`);
  return message + pairs.join("");
}
