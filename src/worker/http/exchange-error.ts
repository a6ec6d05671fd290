/** An exchange that we ended ourselves. Errors of the system (ECONNREFUSED, ENOTFOUND, …) pass as they are. */
import type { FailureClass } from "../../core/failure.ts";

export type ExchangeCode = "blocked_address" | "bad_redirect" | "too_many_redirects" | "ETIMEDOUT" | "ABORT_ERR";

export class ExchangeError extends Error {
  readonly code: ExchangeCode;
  readonly class: FailureClass;

  constructor(code: ExchangeCode, failureClass: FailureClass, message: string) {
    super(message);
    this.name = code === "ETIMEDOUT" ? "TimeoutError" : code === "ABORT_ERR" ? "AbortError" : "ExchangeError";
    this.code = code;
    this.class = failureClass;
  }
}
