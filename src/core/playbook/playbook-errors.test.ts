import { expect, it } from "vitest";
import { incompatiblePlaybook, invalidPlaybook, playbookNotFound } from "./playbook-errors.ts";

it("lists the problems of a playbook, and counts those that do not fit", () => {
  const { code, message } = invalidPlaybook(Array.from({ length: 22 }, (_, i) => `orders.yaml:${i + 1}:1: wrong`));
  expect(code).toBe("invalid_playbook");
  expect(message.split("\n")).toHaveLength(22);
  expect(message).toContain("orders.yaml:20:1: wrong\nand 2 more");
});

it("names the path and the version that do not exist", () => {
  expect(playbookNotFound("shop/orders", 3).message).toBe(
    "version 3 of the playbook shop/orders does not exist in the catalog",
  );
  expect(incompatiblePlaybook("step a is missing").code).toBe("playbook_incompatible");
});
