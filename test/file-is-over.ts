/** What is to be done when a test, or a test file, is over. Files may share a process, in which a module is loaded once: what
 *  it asks for here is done after each of them, where a hook of its own would be called for the first file only.
 *  `test/setup.ts` sees to it. */
type Task = () => Promise<void> | void;

const afterTests: Task[] = [];
const afterFiles: Task[] = [];

/** After each test, the last that was asked for first. */
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
