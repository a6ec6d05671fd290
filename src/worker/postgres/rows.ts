/** Collects the rows of a result as JSON text, and counts them and their bytes as they arrive, so that a result above a limit
 *  never has to fit into memory. */
import { columnText } from "./column-text.ts";

interface RowLimits {
  readonly maxRows: number;
  /** Of the whole result. */
  readonly maxBytes: number;
}

/** A column: its name, and the id of its type. */
interface RowColumn {
  readonly name: string;
  readonly dataTypeID: number;
}

/** `{"rows":[],"rowCount":…}` around the rows, with a number of up to 16 digits. */
const AROUND = 40;
/** JSON is shorter than the text of PostgreSQL only for bytea (base64 for hex digits): far above the limit it need not be made. */
const HEADROOM = 2;

export class Rows {
  readonly #limits: RowLimits;
  readonly #rows: string[] = [];
  #columns: { readonly index: number; readonly key: string; readonly toJson: (text: string) => string }[] | null = null;
  #bytes = AROUND;
  #problem: string | null = null;

  constructor(limits: RowLimits) {
    this.#limits = limits;
  }

  /** Why the result is too large; null if it is not. */
  get problem(): string | null {
    return this.#problem;
  }

  /** Not stored above a limit: then `problem` is set. */
  add(values: readonly (string | null)[], columns: readonly RowColumn[]): void {
    if (this.#problem !== null) return;
    const { maxRows, maxBytes } = this.#limits;
    const size = values.reduce((sum, value) => sum + (value?.length ?? 0), 0);
    const isClear = this.#rows.length < maxRows && this.#bytes + size / HEADROOM <= maxBytes;
    const row = isClear ? this.#rowText(values, columns) : "";
    this.#bytes += Buffer.byteLength(row) + 1;
    if (isClear && this.#bytes <= maxBytes) this.#rows.push(row);
    else
      this.#refuse(
        this.#rows.length === maxRows
          ? `more than ${maxRows} rows (maxRows)`
          : `more than ${maxBytes} bytes as JSON (maxBytes)`,
      );
  }

  /** The result as JSON text. */
  result(rowCount: number): string {
    return `{"rows":[${this.#rows.join(",")}],"rowCount":${rowCount}}`;
  }

  #rowText(values: readonly (string | null)[], columns: readonly RowColumn[]): string {
    this.#columns ??= columnsOf(columns);
    const cells = this.#columns.map(({ index, key, toJson }) => {
      const value = values[index] ?? null;
      return `${key}:${value === null ? "null" : toJson(value)}`;
    });
    return `{${cells.join(",")}}`;
  }

  #refuse(problem: string): void {
    this.#problem = problem;
    this.#rows.length = 0;
  }
}

/** Of columns with one name, the last counts. */
function columnsOf(columns: readonly RowColumn[]) {
  const last = new Map(columns.map(({ name }, index) => [name, index]));
  return [...last].map(([name, index]) => ({
    index,
    key: JSON.stringify(name),
    toJson: columnText(columns[index]?.dataTypeID ?? 0),
  }));
}
