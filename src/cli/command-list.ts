/** All commands, in the order of the help. The summaries are those of the commands themselves; a test compares them. */
import type { ListedCommand } from "./command.ts";

export const COMMANDS: readonly ListedCommand[] = [
  {
    name: "run",
    summary: "Run a command until it has truly succeeded or truly failed",
    load: async () => (await import("./commands/run.ts")).run,
  },
  {
    name: "submit",
    summary: "Submit jobs for workers to run",
    load: async () => (await import("./commands/submit.ts")).submit,
  },
  {
    name: "apply",
    summary: "Submit the jobs of a file, ours or of another system",
    load: async () => (await import("./commands/apply.ts")).apply,
  },
  {
    name: "convert",
    summary: "Turn a file of another system into a job file of Perdure",
    load: async () => (await import("./commands/convert.ts")).convert,
  },
  {
    name: "wait",
    summary: "Wait until jobs have ended",
    load: async () => (await import("./commands/wait.ts")).wait,
  },
  {
    name: "ps",
    summary: "List jobs, newest first",
    load: async () => (await import("./commands/ps.ts")).ps,
  },
  {
    name: "get",
    summary: "Show one job, its attempts and its result",
    load: async () => (await import("./commands/get.ts")).get,
  },
  {
    name: "explain",
    summary: "Tell why a job ended as it did, or why it waits",
    load: async () => (await import("./commands/explain.ts")).explain,
  },
  {
    name: "describe",
    summary: "Describe a job with its attempts, children and events",
    load: async () => (await import("./commands/describe.ts")).describe,
  },
  {
    name: "tree",
    summary: "Show a job with its children, and theirs",
    load: async () => (await import("./commands/tree.ts")).tree,
  },
  {
    name: "logs",
    summary: "Show the output of a command, or the log of a task",
    load: async () => (await import("./commands/logs.ts")).logs,
  },
  {
    name: "events",
    summary: "List events, of one job or of all",
    load: async () => (await import("./commands/events.ts")).events,
  },
  {
    name: "artifacts",
    summary: "List the files that a job left, or print or save one of them",
    load: async () => (await import("./commands/artifacts.ts")).artifacts,
  },
  {
    name: "cancel",
    summary: "Cancel jobs",
    load: async () => (await import("./commands/cancel.ts")).cancel,
  },
  {
    name: "retry",
    summary: "Run waiting jobs now, and failed ones again",
    load: async () => (await import("./commands/retry.ts")).retry,
  },
  {
    name: "redrive",
    summary: "Redrive failed jobs, with fresh budgets",
    load: async () => (await import("./commands/redrive.ts")).redrive,
  },
  {
    name: "resubmit",
    summary: "Submit a job like another, with other words or another command",
    load: async () => (await import("./commands/resubmit.ts")).resubmit,
  },
  {
    name: "discard",
    summary: "Take failed jobs out of the dead letters",
    load: async () => (await import("./commands/discard.ts")).discard,
  },
  {
    name: "usage",
    summary: "Tell what a running job has used of tokens and money",
    load: async () => (await import("./commands/usage.ts")).usage,
  },
  {
    name: "queues",
    summary: "Show queues with their counts; pause or resume one",
    load: async () => (await import("./commands/queues.ts")).queues,
  },
  {
    name: "workers",
    summary: "Show workers and how they fare",
    load: async () => (await import("./commands/workers.ts")).workers,
  },
  {
    name: "drain",
    summary: "Ask workers to take no more jobs, and to end",
    load: async () => (await import("./commands/drain.ts")).drain,
  },
  {
    name: "simulate",
    summary: "Show what a retry policy would do, without running anything",
    load: async () => (await import("./commands/simulate.ts")).simulate,
  },
  {
    name: "up",
    summary: "Start server, workers and database here, in one command",
    load: async () => (await import("./commands/up.ts")).up,
  },
  {
    name: "server",
    summary: "Serve jobs over HTTP, for workers on any number of hosts",
    load: async () => (await import("./commands/server.ts")).server,
  },
  {
    name: "worker",
    summary: "Run jobs for a server: commands, requests, and tasks of your own",
    load: async () => (await import("./commands/worker.ts")).worker,
  },
  {
    name: "token",
    summary: "Make, list or revoke tokens of a server",
    load: async () => (await import("./commands/token.ts")).token,
  },
  {
    name: "config",
    summary: "Show the settings in force, and where they came from",
    load: async () => (await import("./commands/config.ts")).config,
  },
  {
    name: "doctor",
    summary: "Look for what is wrong, and say what to do",
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
  {
    name: "migrate",
    summary: "Bring the schema of a database to this version",
    load: async () => (await import("./commands/migrate.ts")).migrate,
  },
  {
    name: "prune",
    summary: "Delete now what is past its retention",
    load: async () => (await import("./commands/prune.ts")).prune,
  },
  {
    name: "completion",
    summary: "Print a script that completes commands in your shell",
    load: async () => (await import("./commands/completion.ts")).completionOf(COMMANDS),
  },
];
