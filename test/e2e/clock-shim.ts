/** A wall clock for one process that tests can set: a library loaded before libc adds the seconds in a file to the real
 *  time of `clock_gettime` and `gettimeofday`. The monotonic clock is unchanged. Needs Linux and a C compiler. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Env } from "./process.ts";

const SOURCE = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long offset(void) {
  char text[32];
  const char *path = getenv("CLOCK_SHIM_FILE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return 0;
  ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = 0;
  return atol(text);
}
int clock_gettime(clockid_t id, struct timespec *at) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int answer = real(id, at);
  if (answer == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += offset();
  return answer;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  static int (*real)(struct timeval *, void *);
  if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
  int answer = real(at, zone);
  if (answer == 0) at->tv_sec += offset();
  return answer;
}
`;

export const HAS_COMPILER = process.platform === "linux" && spawnSync("gcc", ["--version"]).status === 0;

export interface ClockShim {
  /** Environment for processes that use it. */
  readonly env: Env;
  set(seconds: number): void;
}

export function clockShim(dir: string): ClockShim {
  const [source, library, file] = ["shim.c", "shim.so", "seconds"].map((name) => join(dir, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(source, SOURCE);
  const { status, stderr } = spawnSync("gcc", ["-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]);
  if (status !== 0) throw new Error(`gcc: ${stderr}`);
  const set = (seconds: number) => writeFileSync(file, String(seconds));
  set(0);
  return { env: { LD_PRELOAD: library, CLOCK_SHIM_FILE: file }, set };
}
