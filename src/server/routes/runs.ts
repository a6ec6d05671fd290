/** Runs of playbooks: starting, listing, steps, graph and redrive. Everything else about a run goes through the routes of jobs. */
import { fromWirePlaybook, type WirePlaybook } from "../../contract/run-request.ts";
import { LIMIT } from "../../contract/wire.ts";
import {
  checkRunOptions,
  checkRunsFilter,
  checkStepsPage,
  type RunOptions,
  type RunRedriveOptions,
  type RunsFilter,
  type StepsPage,
} from "../../core/api/runs.ts";
import type { GraphFormat } from "../../core/run/graph-format.ts";
import { JsonText, operator, type RouteHandlers, type ServerParts } from "../context.ts";
import { findJob } from "../find-job.ts";
import { principal, runAdmission, withWirePath } from "./submit.ts";

interface StartRunRequest extends RunOptions {
  readonly playbook: WirePlaybook;
  readonly input?: Readonly<Record<string, unknown>>;
}

interface RedriveRunRequest extends Omit<RunRedriveOptions, "playbook"> {
  readonly playbook?: WirePlaybook;
}

export function runRoutes(parts: ServerParts): RouteHandlers {
  const { runs } = parts.engine;
  return {
    async startRun(call) {
      const { playbook, input, ...options } = call.body as StartRunRequest;
      try {
        const { id, chapter, created } = await runs.start({
          namespace: call.namespace,
          playbook: fromWirePlaybook(playbook),
          input: input ?? {},
          options: checkRunOptions(options),
          by: principal(call),
          token: call.who.id,
          admit: runAdmission(parts, call),
        });
        return new JsonText(JSON.stringify({ id, chapter, created }), created ? 201 : 200);
      } catch (error) {
        throw withWirePath(error, "");
      }
    },

    async listRuns({ namespace, query }) {
      try {
        return await runs.list(namespace, checkRunsFilter(query as RunsFilter));
      } catch (error) {
        throw withWirePath(error, "");
      }
    },

    async getRun(call) {
      return runs.info(call.namespace, (await findJob(parts, call)).id);
    },

    async listSteps(call) {
      const { id } = await findJob(parts, call);
      const { states, ...rest } = call.query as Omit<StepsPage, "states"> & { readonly states?: string | string[] };
      const given = states === undefined ? {} : { states: Array.isArray(states) ? states : [states] };
      const page = checkStepsPage({ ...rest, ...given } as StepsPage);
      const steps = await runs.steps(call.namespace, id, page);
      // With outputs a page may be short.
      const isLast = steps.length === 0 || (page.outputs !== true && steps.length < page.limit);
      return { steps, next: isLast ? null : (steps.at(-1)?.n ?? null) };
    },

    async getRunGraph(call) {
      const { id } = await findJob(parts, call);
      return { graph: await runs.graph(call.namespace, id, formatOf(call.query.format)) };
    },

    async redriveRun(call) {
      const { id } = await findJob(parts, call);
      const { playbook, ...options } = (call.body ?? {}) as RedriveRunRequest;
      const given = playbook === undefined ? {} : { playbook: fromWirePlaybook(playbook) };
      try {
        return await runs.redrive(call.namespace, id, { ...options, ...given }, operator(call.who));
      } catch (error) {
        throw withWirePath(error, "");
      }
    },
  };
}

function formatOf(value: unknown): GraphFormat {
  return (value as GraphFormat | undefined) ?? "json";
}

export function playbookRoutes({ engine }: ServerParts): RouteHandlers {
  const { playbooks } = engine;
  return {
    async validatePlaybook({ namespace, body }) {
      return playbooks.validate(namespace, fromWirePlaybook((body as { readonly playbook: WirePlaybook }).playbook));
    },

    async pushPlaybook(call) {
      const { path, ...text } = call.body as { readonly path?: string; readonly source: string };
      return playbooks.push(call.namespace, text, path === undefined ? {} : { path }, operator(call.who));
    },

    async listPlaybooks({ namespace, query }) {
      const { after, limit = LIMIT.playbooks } = query as { readonly after?: string; readonly limit?: number };
      const found = await playbooks.list(namespace, { limit, ...(after === undefined ? {} : { after }) });
      return { playbooks: found, next: found.length < limit ? null : (found.at(-1)?.path ?? null) };
    },

    async getPlaybook({ namespace, query }) {
      const { path, version = null } = query as unknown as { readonly path: string; readonly version?: number };
      return playbooks.get(namespace, path, version);
    },

    async deletePlaybook({ namespace, query }) {
      const { path, version = null } = query as unknown as { readonly path: string; readonly version?: number };
      return { deleted: await playbooks.remove(namespace, path, version) };
    },

    async graphPlaybook({ namespace, body }) {
      const { playbook, format } = body as { readonly playbook: WirePlaybook; readonly format?: unknown };
      return { graph: await playbooks.graph(namespace, fromWirePlaybook(playbook), formatOf(format)) };
    },

    async playbookSchema() {
      const { playbookSchema } = await import("../../core/playbook/schema.ts");
      return playbookSchema();
    },
  };
}
