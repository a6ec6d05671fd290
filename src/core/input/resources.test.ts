import { describe, expect, it } from "vitest";
import { ConfigError } from "../errors.ts";
import {
  fits,
  NO_RESOURCES,
  resourceLabels,
  resourcesIn,
  showResources,
  toBytes,
  toResources,
  without,
} from "./resources.ts";

describe("memory", () => {
  it.each([
    ["512m", 512 * 2 ** 20],
    ["2g", 2 * 2 ** 30],
    ["1.5Gi", 1.5 * 2 ** 30],
    ["64 KiB", 64 * 1_024],
    ["1024", 1_024],
    ["1tb", 2 ** 40],
    [4_096, 4_096],
    [0, 0],
  ])("%j is %i bytes", (given, bytes) => {
    expect(toBytes(given, "memory")).toBe(bytes);
  });

  it.each(["", "m", "-1g", "1e9", "2 gigs", "0x10", "1pb", "9999t", -1, Number.NaN, Infinity, null, {}])(
    "refuses %j",
    (given) => {
      expect(() => toBytes(given, "resources.memory")).toThrow(/^resources\.memory: must be .*512m/);
    },
  );
});

describe("resources", () => {
  it("are thousandths of a cpu and bytes, 0 where not given", () => {
    expect(toResources({ cpu: 0.25, memory: "1k" }, "r")).toEqual({ cpu: 250, memory: 1_024 });
    expect(toResources({}, "r")).toEqual(NO_RESOURCES);
  });

  it.each([{ cpu: -1 }, { cpu: "1" }, { cpus: 1 }, { cpu: 1e6 }, null, 3])("refuse %j", (given) => {
    expect(() => toResources(given, "r")).toThrow(ConfigError);
  });

  it("are stored as labels, without those that are 0", () => {
    expect(resourceLabels({ cpu: 250, memory: 0 })).toEqual({ "resource/cpu": "250" });
    expect(resourcesIn({ zone: "a" })).toBe(null);
    for (const each of [
      { cpu: 250, memory: 0 },
      { cpu: 0, memory: 7 },
      { cpu: 1, memory: 2 },
    ]) {
      expect(resourcesIn({ zone: "a", ...resourceLabels(each) })).toEqual(each);
    }
  });

  it("are told in words", () => {
    expect(showResources({ cpu: 1_500, memory: 2 ** 29 })).toBe("1.5 cpus and 512 MiB of memory");
    expect(showResources({ cpu: 1_000, memory: 0 })).toBe("1 cpu");
  });

  it("fit where both do, and leave what is left", () => {
    const room = { cpu: 1_000, memory: 10 };
    expect(fits({ cpu: 1_000, memory: 10 }, room)).toBe(true);
    expect(fits({ cpu: 1_001, memory: 0 }, room)).toBe(false);
    expect(fits({ cpu: 0, memory: 11 }, room)).toBe(false);
    expect(without(room, { cpu: 400, memory: 20 })).toEqual({ cpu: 600, memory: 0 });
  });
});
