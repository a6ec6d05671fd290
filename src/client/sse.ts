/** Server-sent events, read from bytes that come in pieces: a piece may end anywhere, also within a letter or between the
 *  two characters of a line's end. What is incomplete when the stream ends is dropped, as the standard says. */

export interface SseMessage {
  /** The last one given, also by an earlier message; empty if there was none. */
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

export class SseParser {
  readonly #decoder = new TextDecoder();
  /** The line that has begun, in pieces. */
  #line: string[] = [];
  /** The last piece ended with a CR: an LF that comes now belongs to it. */
  #afterCr = false;
  #id = "";
  #lastId = "";
  #event = "";
  #data: string[] = [];

  /** Where to come back to: a server moves it past what does not concern us by a message without data. */
  get lastId(): string {
    return this.#lastId;
  }

  /** The messages that are complete now. */
  feed(bytes: Uint8Array): SseMessage[] {
    const messages: SseMessage[] = [];
    const text = this.#decoder.decode(bytes, { stream: true });
    let from = this.#afterCr && text.startsWith("\n") ? 1 : 0;
    if (text !== "") this.#afterCr = text.endsWith("\r");
    const ends = /\r\n|\n|\r/g;
    ends.lastIndex = from;
    for (let end = ends.exec(text); end !== null; end = ends.exec(text)) {
      this.#line.push(text.slice(from, end.index));
      const message = this.#take(this.#line.join(""));
      if (message !== null) messages.push(message);
      this.#line = [];
      from = ends.lastIndex;
    }
    if (from < text.length) this.#line.push(text.slice(from));
    return messages;
  }

  #take(line: string): SseMessage | null {
    if (line === "") return this.#finish();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return null; // and comments, which have no name before their colon
  }

  #finish(): SseMessage | null {
    const message = { id: this.#id, event: this.#event || "message", data: this.#data.join("\n") };
    const isOne = this.#data.length > 0;
    this.#lastId = this.#id;
    this.#event = "";
    this.#data = [];
    return isOne ? message : null;
  }
}
