/** Queues of `perdure run`: a command that runs in the process that was started waits in a queue of its own, which no other
 *  `perdure run` takes. Such a queue goes with its job: it is listed while the job has not ended, and its lane is deleted with the
 *  last job that names it. */

const RUN_QUEUE = /^run-[0-9a-f]{16}$/;

/** `hex` is 16 or more lower-case hexadecimal digits. */
export function runQueue(hex: string): string {
  return `run-${hex.slice(0, 16)}`;
}

export function isRunQueue(queue: string): boolean {
  return RUN_QUEUE.test(queue);
}
