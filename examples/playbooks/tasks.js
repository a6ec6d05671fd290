/** The tasks of task.yaml. A worker serves them with --tasks, a program with perdure.work([quote, invoice]). */
import { task } from "perdure";

const PRICES = { a1: 12.5, b2: 99 };

export const quote = task("quote", async ({ items }, ctx) => {
  if (ctx.attempt === 1) throw new Error("the price list is locked"); // the playbook repeats it
  return { total: items.reduce((sum, { sku, count }) => sum + (PRICES[sku] ?? 10) * count, 0) };
});

export const invoice = task("invoice", async ({ customer, total }) => ({ text: `${customer} owes ${total}` }));
