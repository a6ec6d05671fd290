import { expect, it } from "vitest";
import { catalogPath, fixedPaths, pathFrom, withPaths } from "./paths.ts";
import type { StepAction } from "./playbook.ts";
import { testPlaybook, testStep } from "./testing-playbook.ts";

function step(name: string, path: string) {
  const action: StepAction = { type: "playbook", path, inline: null, data: null, returnStep: null, wait: true };
  return testStep(name, [], { action });
}

it.each([
  ["./orders.yaml", "./pay.yaml", "./pay.yaml"],
  ["./orders.yaml", "./sub/pay.yaml", "./sub/pay.yaml"],
  ["./sub/orders.yaml", "../pay.yaml", "./pay.yaml"],
  ["./a/b/orders.yaml", ".././c/pay.yaml", "./a/c/pay.yaml"],
  ["./orders.yaml", "../pay.yaml", null],
  ["./orders.yaml", "./", null],
])("a file %s names %s, which is %s", (file, relative, expected) => {
  expect(pathFrom(file, relative)).toBe(expected);
});

it("searches a relative path in the catalog beside the playbook's own, without the suffix of a file", () => {
  expect(catalogPath("shop/orders", "./pay.yaml")).toBe("shop/pay");
  expect(catalogPath("shop/eu/orders", "../pay.yml")).toBe("shop/pay");
  expect(catalogPath("orders", "../pay.yaml")).toBeNull();
});

it("replaces relative paths, also those of inline playbooks, and leaves templates and catalog paths", () => {
  const inline = testPlaybook([step("in", "./b.yaml")]);
  const action: StepAction = { type: "playbook", path: null, inline, data: null, returnStep: null, wait: true };
  const playbook = testPlaybook([
    step("one", "./a.yaml"),
    step("two", "shop/c@2"),
    step("three", "./{{ x }}"),
    testStep("four", [], { action }),
  ]);
  const next = withPaths(playbook, (path) => `${path}!`);
  expect(fixedPaths(next)).toEqual(["./a.yaml!", "shop/c@2", "./b.yaml!"]);
  expect(fixedPaths(playbook)).toEqual(["./a.yaml", "shop/c@2", "./b.yaml"]);
  const plain = testPlaybook([step("two", "shop/c@2")]);
  expect(withPaths(plain, () => "x")).toBe(plain);
});
