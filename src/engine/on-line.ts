/** Instants that people and programs give (`runAt`, a deadline) are the wall clock's. The engine's clock may be ahead of it,
 *  where that was set back: they are moved by as much, and come when the wall clock shows them. */
import type { Command } from "../core/command.ts";
import type { Clock } from "../lib/clock.ts";

/** The last instant that a Date can hold. */
const MAX_INSTANT = 8.64e15;

export function onLine(clock: Pick<Clock, "fromWall">, at: number): number {
  return clock.fromWall === undefined ? at : Math.min(clock.fromWall(at), MAX_INSTANT);
}

export function commandOnLine(clock: Pick<Clock, "fromWall">, command: Command): Command {
  if (command.kind === "reschedule") return { ...command, runAt: onLine(clock, command.runAt) };
  if (command.kind !== "redrive" || command.changes?.deadlineAt === undefined) return command;
  return { ...command, changes: { ...command.changes, deadlineAt: onLine(clock, command.changes.deadlineAt) } };
}
