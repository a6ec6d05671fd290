/** Parses server-sent events from chunks of bytes. A chunk may end anywhere, also within a character or between the two
 *  characters of a line break. An incomplete event at the end of the stream is dropped, as the standard requires. */

export interface SseMessage {
  /** The last id, possibly of an earlier message; empty if there was none. */
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

export class SseParser {
  readonly #decoder = new TextDecoder();
  /** The incomplete line, in pieces. */
  #line: string[] = [];
  /** The last chunk ended with a CR: an LF that follows belongs to it. */
  #afterCr = false;
  #id = "";
  #lastId = "";
  #event = "";
  #data: string[] = [];

  /** Where to resume: with a message without data a server moves it past events that do not match. */
  get lastId(): string {
    return this.#lastId;
  }

  /** The messages that this chunk completes. */
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
