/** Bytes of a stranger's, as they come, for a terminal. A character or a line end that is cut in two by the chunks is held
 *  back until the rest of it has come. */
import { StringDecoder } from "node:string_decoder";
import { safeText } from "./terminal-text.ts";

export class TerminalStream {
  readonly #decoder = new StringDecoder("utf8");
  /** A carriage return at the end: whether it ends a line is seen with what follows. */
  #held = "";

  text(bytes: Uint8Array): string {
    const text = this.#held + this.#decoder.write(Buffer.from(bytes));
    this.#held = text.endsWith("\r") ? "\r" : "";
    return safeText(this.#held === "" ? text : text.slice(0, -1));
  }

  /** What was held back, when no more comes. */
  end(): string {
    const rest = this.#held + this.#decoder.end();
    this.#held = "";
    return safeText(rest);
  }
}
