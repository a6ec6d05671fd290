import { describe, expect, it } from "vitest";
import { labelsText } from "./job-text.ts";

describe("labels of a worker", () => {
  it("are shown with cpus and memory as in the options", () => {
    expect(labelsText({ gpu: "a100", spot: "" })).toBe("gpu=a100,spot");
    expect(labelsText({ "resource/cpu": "1500", "resource/host-cpu": "8000" })).toBe("cpu=1.5");
    const memory = (bytes: number) => labelsText({ "resource/cpu": "1500", "resource/memory": String(bytes) });
    expect(memory(8 * 2 ** 30)).toBe("cpu=1.5,memory=8g");
    expect(memory(8_123_456_789)).toBe("cpu=1.5,memory=7.6g");
    expect(memory(512 * 2 ** 20)).toBe("cpu=1.5,memory=512m");
  });
});
