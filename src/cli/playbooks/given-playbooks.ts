/** The playbooks of a command that stores something: read and checked before anything is opened. On a server they are checked by
 *  its settings when they are sent. */

import type { ValidationAnswer } from "../../core/api/playbooks.ts";
import type { Perdure } from "../../core/api.ts";
import type { Playbook } from "../../core/playbook/playbook.ts";
import type { CommandContext } from "../command.ts";
import type { Target } from "../target/target.ts";
import {
  onlySource,
  type PlaybookFileReading,
  type PlaybookSource,
  type PlaybookWithFiles,
  playbookSources,
  readWithFiles,
} from "./playbook-files.ts";
import { refuseErrors } from "./problems.ts";
import type { FoundDefinition } from "./run-playbook.ts";
import { playbookTools } from "./tools.ts";

/** The only playbook of a file; its problems are printed. */
export async function givenPlaybook(context: CommandContext, target: Target, name: string): Promise<PlaybookWithFiles> {
  const { io, out } = context;
  const sources = await playbookSources(name, io);
  if ("problems" in sources) refuseErrors(out, [sources]);
  const source = onlySource(sources as readonly PlaybookSource[], name);
  return checkedPlaybook(context, target, source);
}

export function checkedPlaybook(context: CommandContext, target: Target, source: PlaybookSource): PlaybookWithFiles {
  const found = readWithFiles(source, playbookTools(context));
  refuseErrors(context.out, target.kind === "store" ? found.readings : found.readings.map(withoutTools));
  return found;
}

/** A server may have other settings: it reports unknown types of steps itself. */
function withoutTools(reading: PlaybookFileReading): PlaybookFileReading {
  return { ...reading, problems: reading.problems.filter(({ code }) => code !== "tool_unknown") };
}

/** For a run: what is sent, and what is known of it. */
export async function definitionOf(perdure: Perdure, { given, readings }: PlaybookWithFiles): Promise<FoundDefinition> {
  const definitions = readings.flatMap(({ playbook }): Playbook[] => (playbook === null ? [] : [playbook]));
  const [root] = readings;
  const inputs = root?.playbook?.inputs ?? (await inputsOnServer(perdure, given));
  return { playbook: given, inputs, definitions };
}

async function inputsOnServer(
  perdure: Perdure,
  given: PlaybookWithFiles["given"],
): Promise<NonNullable<ValidationAnswer["playbook"]>["inputs"]> {
  return (await perdure.validatePlaybook(given)).playbook?.inputs ?? null;
}
