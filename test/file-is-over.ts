/** What is to be done when a test file is over. Files may share a process, in which a module is loaded once: what it asks for
 *  here is done after each of them. `test/setup.ts` sees to it. */
const tasks: (() => Promise<void> | void)[] = [];

export function whenFileIsOver(task: () => Promise<void> | void): void {
  tasks.push(task);
}

export async function fileIsOver(): Promise<void> {
  for (const task of tasks) await task();
}
