// The order of test files where nobody remembers how long they took, as in CI. The longest comes first, so that the end is not
// spent waiting for it on one core. Those that start many processes follow: to start one costs a process more the larger it
// has grown (5 ms at 100 MB, 50 ms at 700 MB), and test processes grow from file to file.
import { BaseSequencer } from "vitest/node";

const FIRST = [
  "src/store/postgres/conformance.test.ts",
  "test/e2e/",
  "test/exec/",
  "test/crash/",
  "test/readme.test.ts",
  "src/worker/exec/",
  "test/cli/run",
  "test/opal/",
  "test/http-worker/",
  "test/dialects/",
  "test/cli/",
  "src/store/sqlite/conformance.test.ts",
];

export default class TestOrder extends BaseSequencer {
  async sort(files) {
    const place = ({ moduleId }) => {
      const at = FIRST.findIndex((name) => moduleId.includes(`/${name}`));
      return at < 0 ? FIRST.length : at;
    };
    return (await super.sort(files)).sort((a, b) => place(a) - place(b));
  }
}
