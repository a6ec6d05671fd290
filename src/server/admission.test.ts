import { describe, expect, it } from "vitest";
import { ADMISSION, Admission } from "./admission.ts";

const limits = { ...ADMISSION, maxRequests: 2, maxHeld: 2, maxWaiting: 2, maxBytes: 100 };

describe("admission", () => {
  it("gives workers that wait a share that readers cannot use up", () => {
    const admission = new Admission(limits, () => 0);
    const streams = [admission.enter("held", 0), admission.enter("held", 0)];
    expect(() => admission.enter("held", 0)).toThrow("too many requests wait");
    admission.enter("waiting", 0);
    admission.enter("worker", 0);
    admission.enter("caller", 0);
    streams[0]?.leave();
    admission.enter("held", 0);
  });

  it("refuses what would take too much memory, but a single body never", () => {
    const admission = new Admission(limits, () => 0);
    const first = admission.enter("caller", 1_000);
    expect(() => admission.enter("caller", 1)).toThrow("too much is being read");
    first.read(50);
    admission.enter("caller", 50);
    admission.enter("operator", 1_000);
  });

  it("while the event loop is behind refuses callers, and lets workers in", () => {
    const admission = new Admission(limits, () => 5_000);
    expect(() => admission.enter("caller", 0)).toThrow("the server is behind");
    admission.enter("worker", 0);
    admission.enter("waiting", 0);
    admission.enter("operator", 0);
  });
});
