/** Where a claim starts to scan a lane, and that nothing behind that position is missed for long. */
import { expect, test } from "vitest";
import { ClaimCursors } from "./claim-cursors.ts";

const NOW = 1_000_000;
const none = new Array(10).fill(0);
const with5 = (at: number) => none.map((_, priority) => (priority === 5 ? at : 0));

test("the first scan covers the whole lane, the next ones start where the last job was taken", () => {
  const marks = new ClaimCursors();
  expect(marks.of([1], 0)).toEqual({ marks: none, whole: true });
  marks.taken(1, 5, NOW - 60_000, NOW);
  expect(marks.of([1], 1)).toEqual({ marks: with5(NOW - 60_000), whole: false });
});

test("a scan never starts so late that a job of the last two seconds could be missed", () => {
  const marks = new ClaimCursors();
  marks.of([1], 0);
  marks.taken(1, 5, NOW, NOW);
  expect(marks.of([1], 1).marks).toEqual(with5(NOW - 2_000));
});

test("a requeued job moves back the cursor, only of its lane and priority", () => {
  const marks = new ClaimCursors();
  marks.of([1, 2], 0);
  for (const lane of [1, 2]) marks.taken(lane, 5, NOW - 9_000, NOW);
  marks.put(1, 5, NOW - 20_000);
  marks.put(1, 4, NOW - 30_000);
  marks.put(2, 5, NOW);
  expect(marks.of([1, 2], 1).marks).toEqual([...with5(NOW - 20_000), ...with5(NOW - 9_000)]);
});

test("each lane is scanned as a whole once a second, independent of others", () => {
  const marks = new ClaimCursors();
  marks.of([1], 0);
  marks.of([2], 600);
  for (const lane of [1, 2]) marks.taken(lane, 5, NOW - 9_000, NOW);
  expect(marks.of([2], 1_100).whole).toBe(false);
  expect(marks.of([1], 1_100)).toEqual({ marks: none, whole: true });
  expect(marks.of([1, 2], 1_700)).toEqual({ marks: [...with5(NOW - 9_000), ...none], whole: true });
});

test("slow scans of the whole lane are less frequent; a hint makes all lanes be scanned", () => {
  const marks = new ClaimCursors();
  marks.of([1], 0);
  marks.scannedWhole(100);
  marks.taken(1, 5, NOW - 9_000, NOW);
  expect(marks.of([1], 1_999).whole).toBe(false);
  expect(marks.of([1], 2_000).whole).toBe(true);
  marks.scannedWhole(60_000); // a stall, not a measurement
  expect(marks.of([1], 6_999).whole).toBe(false);
  expect(marks.of([1], 7_000).whole).toBe(true);
  marks.scanWhole();
  expect(marks.of([1], 7_001)).toEqual({ marks: none, whole: true });
});
