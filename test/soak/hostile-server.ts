// A PostgreSQL of a soak's own that can be held (SIGSTOP) and whose clock can jump, back too: a library between it and libc adds seconds to the time.
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startEmbedded } from '../../src/db/embedded.ts'
import { readPostmaster, type ServerFiles, serverFiles } from '../../src/db/embedded-data.ts'
import { serverUser } from '../../src/db/embedded-program.ts'

export interface HostileServer {
  readonly url: string
  /** What it wrote. */
  readonly log: string
  /** Whether its clock can be moved: that takes Linux and a C compiler. */
  readonly movesClock: boolean
  /** Stops every process of it where it is. */
  hold(): void
  letGo(): void
  /** SIGKILL to every process of it, also where it is held. */
  kill(): void
  /** With the options and the clock it had. */
  restart(): void
  /** Seconds between its clock and the machine's, from now on. */
  setAhead(seconds: number): void
  remove(): Promise<void>
}

const shim = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static volatile long long *ahead;
static long long shift(void) {
  if (!ahead) {
    int file = open(getenv("CLOCK_AHEAD"), O_RDONLY);
    void *at = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) return 0;
    ahead = at;
  }
  return *ahead;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
  int result = real(now, zone);
  now->tv_sec += shift();
  return result;
}
int clock_gettime(clockid_t id, struct timespec *now) {
  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(id, now);
  if (id == CLOCK_REALTIME) now->tv_sec += shift();
  return result;
}
time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
`

/** @returns the library; null: none can be made here */
const compileShim = (folder: string): string | null => {
  if (process.platform !== 'linux' || spawnSync('cc', ['--version']).status !== 0) return null
  writeFileSync(join(folder, 'clock.c'), shim)
  const library = join(folder, 'clock.so')
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, join(folder, 'clock.c'), '-ldl'])
  chmodSync(library, 0o755)
  return library
}

export const startHostileServer = async (): Promise<HostileServer> => {
  const home = mkdtempSync(join(tmpdir(), 'millrace-hostile-server-'))
  // The server is another user, who must get at the library.
  chmodSync(home, 0o755)
  const server = await startEmbedded(home)
  const files = serverFiles(home)
  const library = compileShim(home)
  const aheadFile = join(home, 'ahead')
  const setAhead = (seconds: number): void => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(seconds))
    writeFileSync(aheadFile, bytes, { flag: existsSync(aheadFile) ? 'r+' : 'w' })
  }
  setAhead(0)
  chmodSync(aheadFile, 0o644)
  const url = server.url.reveal()
  const within = library === null ? {} : { LD_PRELOAD: library, CLOCK_AHEAD: aheadFile }
  const restart = (): void => restartWithin(files, within)
  if (library !== null) restart()
  const signal = (name: NodeJS.Signals): void => {
    for (const pid of processesOf(files))
      try {
        process.kill(pid, name)
      } catch (error) {
        // It ended in between.
        if (!(error instanceof Error && error.message.includes('ESRCH'))) throw error
      }
  }
  return {
    url,
    log: files.log,
    movesClock: library !== null,
    // The postmaster first: it starts none then.
    hold: () => signal('SIGSTOP'),
    letGo: () => signal('SIGCONT'),
    kill: () => signal('SIGKILL'),
    restart,
    setAhead,
    remove: async () => {
      signal('SIGCONT')
      await server.release()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

/** With the options it was started with, and these variables. */
const restartWithin = ({ data, log, pidFile }: ServerFiles, environment: Readonly<Record<string, string>>): void => {
  const user = serverUser()
  const [postgres = ''] = readFileSync(join(data, 'postmaster.opts'), 'utf8').split(' ')
  for (let attempt = 1; ; attempt += 1) {
    const { status } = spawnSync(join(postgres, '..', 'pg_ctl'), ['-D', data, '-w', '-m', 'fast', '-l', log, 'restart'], {
      ...(user === null ? {} : { uid: user.uid, gid: user.gid }),
      cwd: '/',
      // The server inherits no pipe: one would keep pg_ctl from ending.
      stdio: 'ignore',
      env: { PATH: process.env['PATH'] ?? '', LC_ALL: 'C', ...environment },
    })
    if (status === 0) return
    if (attempt === 20) throw new Error(`PostgreSQL did not start again: ${readFileSync(log, 'utf8').slice(-800)}`)
    // What a killed one left behind.
    rmSync(pidFile, { force: true })
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)
  }
}

/** The postmaster and all that it started. */
const processesOf = (files: ServerFiles): number[] => {
  const postmaster = readPostmaster(files)?.pid
  if (postmaster === undefined) return []
  const parents = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => parentOf(pid) === postmaster)
  return [postmaster, ...parents.map(Number)]
}

const parentOf = (pid: string): number | null => {
  try {
    return Number(/\) \S (\d+)/.exec(readFileSync(join('/proc', pid, 'stat'), 'utf8'))?.[1])
  } catch {
    // It ended in between.
    return null
  }
}
