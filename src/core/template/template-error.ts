/** Mistakes in the text of a template. */
export type TemplateCode = "template_syntax" | "template_statement" | "template_call";

export class TemplateError extends Error {
  readonly code: TemplateCode;
  /** Within the text, from 0. */
  readonly offset: number;

  constructor(code: TemplateCode, offset: number, message: string) {
    super(message);
    this.name = "TemplateError";
    this.code = code;
    this.offset = offset;
  }
}

export function syntaxError(message: string, offset: number): TemplateError {
  return new TemplateError("template_syntax", offset, message);
}
