/** All commands, in the order of the help. Each summary is a copy of the command's own; a test compares them. */
import type { ListedCommand } from "./command.ts";

export const COMMANDS: readonly ListedCommand[] = [
  {
    name: "run",
    summary: "Run a command or a playbook until it has truly succeeded or failed",
    load: async () => (await import("./commands/run.ts")).run,
  },
  {
    name: "submit",
    summary: "Submit jobs for workers to run",
    load: async () => (await import("./commands/submit.ts")).submit,
  },
  {
    name: "apply",
    summary: "Submit the jobs and start the playbooks of files",
    load: async () => (await import("./commands/apply.ts")).apply,
  },
  {
    name: "start",
    summary: "Start a run of a playbook of the catalog",
    load: async () => (await import("./commands/start.ts")).start,
  },
  {
    name: "runs",
    summary: "List runs of playbooks, newest first",
    load: async () => (await import("./commands/runs.ts")).runs,
  },
  {
    name: "steps",
    summary: "List the steps of a run",
    load: async () => (await import("./commands/steps.ts")).steps,
  },
  {
    name: "playbook",
    summary: "Push, list, show or delete playbooks of the catalog",
    load: async () => (await import("./commands/playbook.ts")).playbook,
  },
  {
    name: "validate",
    summary: "Check playbook files, and list all their problems",
    load: async () => (await import("./commands/validate.ts")).validate,
  },
  {
    name: "graph",
    summary: "Draw a playbook, or a run with the states of its steps",
    load: async () => (await import("./commands/graph.ts")).graph,
  },
  {
    name: "schema",
    summary: "Print the JSON Schema of playbooks, for editors",
    load: async () => (await import("./commands/schema.ts")).schema,
  },
  {
    name: "convert",
    summary: "Convert a file of another system to a Perdure job file",
    load: async () => (await import("./commands/convert.ts")).convert,
  },
  {
    name: "wait",
    summary: "Wait for jobs to end",
    load: async () => (await import("./commands/wait.ts")).wait,
  },
  {
    name: "ps",
    summary: "List jobs, newest first",
    load: async () => (await import("./commands/ps.ts")).ps,
  },
  {
    name: "get",
    summary: "Show one job or run, its attempts or steps, and its result",
    load: async () => (await import("./commands/get.ts")).get,
  },
  {
    name: "explain",
    summary: "Show why a job ended, or why it is waiting",
    load: async () => (await import("./commands/explain.ts")).explain,
  },
  {
    name: "describe",
    summary: "Show everything recorded about a job",
    load: async () => (await import("./commands/describe.ts")).describe,
  },
  {
    name: "tree",
    summary: "Show a job and all its descendants",
    load: async () => (await import("./commands/tree.ts")).tree,
  },
  {
    name: "logs",
    summary: "Show the output of a command, or the log of a task",
    load: async () => (await import("./commands/logs.ts")).logs,
  },
  {
    name: "events",
    summary: "List events of one job or of all jobs",
    load: async () => (await import("./commands/events.ts")).events,
  },
  {
    name: "artifacts",
    summary: "List, print or save the files that a job produced",
    load: async () => (await import("./commands/artifacts.ts")).artifacts,
  },
  {
    name: "cancel",
    summary: "Cancel jobs",
    load: async () => (await import("./commands/cancel.ts")).cancel,
  },
  {
    name: "retry",
    summary: "Run waiting or failed jobs now",
    load: async () => (await import("./commands/retry.ts")).retry,
  },
  {
    name: "redrive",
    summary: "Redrive failed jobs, with fresh budgets",
    load: async () => (await import("./commands/redrive.ts")).redrive,
  },
  {
    name: "resubmit",
    summary: "Submit a copy of a job, with changes",
    load: async () => (await import("./commands/resubmit.ts")).resubmit,
  },
  {
    name: "discard",
    summary: "Remove failed jobs from the dead letters",
    load: async () => (await import("./commands/discard.ts")).discard,
  },
  {
    name: "usage",
    summary: "Report the tokens and money that a running job has used",
    load: async () => (await import("./commands/usage.ts")).usage,
  },
  {
    name: "queues",
    summary: "List queues and their counts; pause or resume queues",
    load: async () => (await import("./commands/queues.ts")).queues,
  },
  {
    name: "workers",
    summary: "List workers and their health",
    load: async () => (await import("./commands/workers.ts")).workers,
  },
  {
    name: "drain",
    summary: "Stop workers when their current jobs are done",
    load: async () => (await import("./commands/drain.ts")).drain,
  },
  {
    name: "simulate",
    summary: "Show what a policy or a playbook would do, without running it",
    load: async () => (await import("./commands/simulate.ts")).simulate,
  },
  {
    name: "up",
    summary: "Start a server, workers and a database on this machine",
    load: async () => (await import("./commands/up.ts")).up,
  },
  {
    name: "server",
    summary: "Start a server, for workers on any number of hosts",
    load: async () => (await import("./commands/server.ts")).server,
  },
  {
    name: "worker",
    summary: "Start a worker: runs commands, requests and your own tasks",
    load: async () => (await import("./commands/worker.ts")).worker,
  },
  {
    name: "token",
    summary: "Create, list or revoke access tokens; rotate the secret",
    load: async () => (await import("./commands/token.ts")).token,
  },
  {
    name: "config",
    summary: "Show the settings in force and their sources",
    load: async () => (await import("./commands/config.ts")).config,
  },
  {
    name: "doctor",
    summary: "Check for problems and show how to fix them",
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
  {
    name: "migrate",
    summary: "Upgrade the schema of a database to this version",
    load: async () => (await import("./commands/migrate.ts")).migrate,
  },
  {
    name: "views",
    summary: "Show the tables of a PostgreSQL database as another system's",
    load: async () => (await import("./commands/views.ts")).views,
  },
  {
    name: "prune",
    summary: "Delete jobs whose retention has expired",
    load: async () => (await import("./commands/prune.ts")).prune,
  },
  {
    name: "completion",
    summary: "Print a completion script for your shell",
    load: async () => (await import("./commands/completion.ts")).completionOf(COMMANDS),
  },
];
