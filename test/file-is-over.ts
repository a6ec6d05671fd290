/** Cleanup after a test, or a test file. Files may share a process, in which a module is loaded once: cleanup
 *  registered here runs after each file, while a hook of a module would run for the first file only. Called by
 *  `test/setup.ts`. */
type Task = () => Promise<void> | void;

const afterTests: Task[] = [];
const afterFiles: Task[] = [];

/** After each test, in reverse order of registration. */
export function whenTestIsOver(task: Task): void {
  afterTests.unshift(task);
}

export function whenFileIsOver(task: Task): void {
  afterFiles.push(task);
}

export async function testIsOver(): Promise<void> {
  for (const task of afterTests) await task();
}

export async function fileIsOver(): Promise<void> {
  for (const task of afterFiles) await task();
}
