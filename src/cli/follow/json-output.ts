/** What a job writes as JSON, an object a line: `{"attempt": 1, "stream": "stdout", "text": "…"}`. A character that is cut
 *  in two by the chunks is held back until the rest of it has come. */
import { StringDecoder } from "node:string_decoder";
import type { OutputChunk } from "../../core/work-options.ts";
import type { Io } from "../io.ts";
import type { Printer } from "../print.ts";
import type { LogSink } from "./follow-logs.ts";
import { writeJsonLine } from "./json-line.ts";

export class JsonOutput implements LogSink {
  readonly #io: Io;
  readonly #out: Printer;
  #decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  #attempt = 0;

  constructor(io: Io, out: Printer) {
    this.#io = io;
    this.#out = out;
  }

  show({ stream, bytes, attempt }: OutputChunk): Promise<void> | undefined {
    this.#attempt = attempt;
    return this.#write(attempt, stream, this.#decoders[stream].write(Buffer.from(bytes)));
  }

  text(attempt: number, log: string): Promise<void> | undefined {
    return this.#write(attempt, "log", log);
  }

  say(text: string): void {
    this.#out.note(text);
  }

  flush(): void {
    for (const stream of ["stdout", "stderr"] as const) {
      void this.#write(this.#attempt, stream, this.#decoders[stream].end());
    }
    this.#decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  }

  #write(attempt: number, stream: string, text: string): Promise<void> | undefined {
    return text === "" ? undefined : writeJsonLine(this.#io, this.#out, { attempt, stream, text });
  }
}
