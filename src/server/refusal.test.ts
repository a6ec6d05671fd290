import { describe, expect, it } from "vitest";
import { refusalOf } from "./check-input.ts";

const KINDS = [
  { type: "object", properties: { kind: { enum: ["completed"] }, result: {} } },
  { type: "object", properties: { kind: { enum: ["failed"] }, failure: {} } },
];
const anyOf = {
  keyword: "anyOf",
  instancePath: "/outcome",
  schemaPath: "#/properties/outcome/anyOf",
  params: {},
  data: {},
};

/** As ajv lists the errors of a value that matches none of several shapes. */
const inBranch = (branch: number, keyword: string, at: string, rest: object) => ({
  ...{
    keyword,
    instancePath: `/outcome${at}`,
    schemaPath: `#/properties/outcome/anyOf/${branch}/${keyword}`,
    params: {},
  },
  ...rest,
});

describe("what a schema refuses", () => {
  it("is about the shape that was meant", () => {
    const faults = [
      inBranch(0, "enum", "/kind", { parentSchema: { enum: ["completed"] }, data: "failed" }),
      inBranch(1, "required", "", { params: { missingProperty: "failure" }, parentSchema: KINDS[1] }),
      { ...anyOf, parentSchema: { anyOf: KINDS } },
    ];
    const error = refusalOf(faults, "body");
    expect([error.path, error.message]).toEqual([
      "outcome.failure",
      "outcome.failure: is missing; must be any JSON value.",
    ]);
  });

  it("lists all allowed values if no shape matches", () => {
    const faults = [
      inBranch(0, "type", "", { parentSchema: { type: "number" }, data: true }),
      inBranch(1, "type", "", { parentSchema: { type: "string" }, data: true }),
      {
        ...anyOf,
        data: true,
        parentSchema: {
          anyOf: [
            { type: "number", minimum: 0 },
            { type: "string", maxLength: 40 },
          ],
        },
      },
    ];
    expect(refusalOf(faults, "body").message).toBe(
      "outcome: must be a number of at least 0, or text of at most 40 characters; got true.",
    );
  });

  it("has the part of the request if there is no field", () => {
    const fault = {
      keyword: "type",
      instancePath: "",
      schemaPath: "#/type",
      params: {},
      parentSchema: { type: "object" },
      data: [1],
    };
    expect(refusalOf([fault], "body").message).toBe("body: must be an object; got a list of 1.");
  });

  it("quotes unusual names, and shortens long values", () => {
    const at = (instancePath: string) => ({
      keyword: "type",
      instancePath,
      schemaPath: "",
      params: {},
      parentSchema: { type: "integer" },
    });
    expect(refusalOf([{ ...at("/labels/a b~1c"), data: "x".repeat(100) }], "body").message).toBe(
      'labels["a b/c"]: must be a whole number; got text of 100 characters.',
    );
  });
});
