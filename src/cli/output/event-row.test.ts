import { expect, it } from "vitest";
import type { PerdureEvent } from "../../core/job/event.ts";
import { eventCells } from "./event-row.ts";

const detailOf = (name: string, data: object) =>
  eventCells({ seq: 1, at: 0, jobId: null, name, data } as unknown as PerdureEvent, false).at(-1);

it("shows the data of an event of the engine in plain words", () => {
  expect(detailOf("worker.stopped", { v: 1, session: "ses_1", why: "stopped" })).toBe("session ses_1, reason: stopped");
  expect(detailOf("token.created", { v: 1, name: "ci", scopes: ["read", "work"], expiresAt: null })).toBe(
    "name ci, scopes read work, never expires",
  );
  expect(detailOf("token.created", { v: 1, expiresAt: 0 })).toMatch(/^expires at (1970|1969)-/);
});
