/** Defaults for files of each dialect, in the units of the source systems. Set in a server's configuration, by a
 *  program that opens a store, or by a command that works on local data. */
import type { Perdure } from "../core/api.ts";
import { asObject } from "../core/check.ts";
import { AGENT_DEFAULTS, type AgentSettings } from "./agent-task/settings.ts";
import { ATTUNE_DEFAULTS, type AttuneSettings } from "./attune/settings.ts";
import { FLUSTER_DEFAULTS, type FlusterSettings } from "./fluster/settings.ts";
import { OPAL_FILE_DEFAULTS, type OpalFileSettings } from "./opal/settings.ts";

/** Defaults for files of each dialect.
 *  @example
 *  const settings: DialectSettings = await dialectSettingsFrom(perdure); */
export interface DialectSettings {
  readonly opal: OpalFileSettings;
  readonly fluster: FlusterSettings;
  readonly attune: AttuneSettings;
  readonly agent: AgentSettings;
}

/** As a program sets them; what it leaves out has its default. */
export type DialectSettingsInput = { readonly [K in keyof DialectSettings]?: Partial<DialectSettings[K]> };

/** The defaults of the defaults.
 *  @example
 *  const retries = DIALECT_DEFAULTS.fluster.defaultMaxRetriesFailure; */
export const DIALECT_DEFAULTS: DialectSettings = {
  opal: OPAL_FILE_DEFAULTS,
  fluster: FLUSTER_DEFAULTS,
  attune: ATTUNE_DEFAULTS,
  agent: AGENT_DEFAULTS,
};

/** For a simulation, which runs nothing: with a placeholder for each program that is not set. */
export function withPrograms(settings: DialectSettings): DialectSettings {
  const { opal, agent } = settings;
  const program = ["(none is set)"];
  return {
    ...settings,
    opal: { ...opal, engine: opal.engine ?? program },
    agent: { ...agent, command: agent.command ?? program },
  };
}

const GROUPS = Object.keys(DIALECT_DEFAULTS) as (keyof DialectSettings)[];

/** The settings of a server, or those that a store was opened with. A group that an older server does not have gets
 *  its defaults.
 *  @example
 *  const { fluster } = await dialectSettingsFrom(perdure); */
export async function dialectSettingsFrom(perdure: Pick<Perdure, "dialectSettings">): Promise<DialectSettings> {
  const given = (await perdure.dialectSettings()) as Partial<DialectSettings>;
  return merged((name) => ({ ...DIALECT_DEFAULTS[name], ...given[name] }));
}

/** Refuses unknown groups and fields. */
export function withDialectDefaults(given: DialectSettingsInput, path: string): DialectSettings {
  const groups = asObject(given, path, GROUPS);
  return merged((name) => {
    const own = groups[name];
    const defaults: object = DIALECT_DEFAULTS[name];
    return own === undefined ? defaults : { ...defaults, ...asObject(own, `${path}.${name}`, Object.keys(defaults)) };
  });
}

function merged(group: (name: keyof DialectSettings) => object): DialectSettings {
  return Object.fromEntries(GROUPS.map((name) => [name, group(name)])) as unknown as DialectSettings;
}
