import { expect, it } from "vitest";
import { shownStore } from "./up.ts";

it.each([
  ["/here/.perdure/perdure.db", ".perdure/perdure.db"],
  ["/elsewhere/jobs.db", "/elsewhere/jobs.db"],
  ["postgres://me:***@db.example/jobs?schema=own", "postgres://me:***@db.example/jobs?schema=own"],
])("shows the store %s as %s", (store, shown) => {
  expect(shownStore(store, "/here")).toBe(shown);
});
