import { describe, expect, it } from "vitest";
import { type CliCommand, readArguments } from "../command.ts";
import { instantOf } from "./job-list.ts";

const command: CliCommand = {
  ...{ name: "ps", summary: "", usage: "", examples: [] },
  options: [{ name: "since", type: "string", help: "" }],
  run: () => Promise.resolve(0),
};
const NOW = Date.parse("2026-11-16T12:00:00Z");

function since(text: string): number | undefined {
  const given = readArguments(command, [`--since=${text}`]);
  return given === null ? undefined : instantOf(given, "since", NOW);
}

describe("an instant on the command line", () => {
  it.each([
    ["30m", NOW - 1_800_000],
    ["1.5 h", NOW - 5_400_000],
    ["0s", NOW],
    ["2026-11-16T09:00:00Z", Date.parse("2026-11-16T09:00:00Z")],
    ["2026-11-16T09:00+02:00", Date.parse("2026-11-16T07:00:00Z")],
    ["2026-11-16T09:00:00.5", new Date(2026, 10, 16, 9, 0, 0, 500).getTime()],
    ["2026-11-16", new Date(2026, 10, 16).getTime()],
  ])("%s is %i", (text, at) => {
    expect(since(text)).toBe(at);
  });

  it.each(["", "30", "yesterday", "-5m", "2026-13-01", "2026-11-16 09:00", "16.11.2026", "99999d", "1e9"])(
    "%j is refused",
    (text) => {
      expect(() => since(text)).toThrow(/^--since: (got|must be) /);
    },
  );
});
