/** `perdure schema`: JSON Schemas for editors. */
import { playbookSchema } from "../../core/playbook/schema.ts";
import type { CliCommand } from "../command.ts";
import { choiceError, EXIT, missingArgument } from "../exit.ts";

export const SCHEMAS = ["playbook"] as const;

export const schema: CliCommand = {
  name: "schema",
  summary: "Print the JSON Schema of playbooks, for editors",
  usage: "perdure schema playbook",
  about:
    "JSON Schema, draft 2020-12. An editor with the YAML language server completes and checks a playbook whose first line is\n" +
    "  # yaml-language-server: $schema=playbook.schema.json\n" +
    "A server has the schema at /v1/schemas/playbook.json. It accepts names and templates that `perdure validate` refuses.",
  options: [],
  examples: ["perdure schema playbook > playbook.schema.json"],

  async run({ given, out }) {
    given.atMost(1);
    const [name] = given.positionals;
    if (name === undefined) throw missingArgument("NAME", schema.usage);
    if (!(SCHEMAS as readonly string[]).includes(name)) throw choiceError("NAME", name, SCHEMAS);
    out.json(playbookSchema());
    return EXIT.done;
  },
};
