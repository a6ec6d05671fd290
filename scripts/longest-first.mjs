// The order of test files where nobody remembers how long they took, as in CI: those that take longest come first, so that the
// end is not spent waiting for one of them on one core. Vitest orders by size, and these are small.
import { BaseSequencer } from "vitest/node";

const LONGEST = [
  "src/store/postgres/conformance.test.ts",
  "test/guides.test.ts",
  "test/crash/strace-kill.test.ts",
  "src/store/sqlite/conformance.test.ts",
  "test/cli/run-signals.test.ts",
  "test/e2e/up.test.ts",
  "src/store/postgres/races.test.ts",
  "test/examples.test.ts",
];

export default class LongestFirst extends BaseSequencer {
  async sort(files) {
    const place = ({ moduleId }) => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}`));
      return at < 0 ? LONGEST.length : at;
    };
    return (await super.sort(files)).sort((a, b) => place(a) - place(b));
  }
}
