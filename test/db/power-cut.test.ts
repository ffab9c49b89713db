// A power cut right after a landing, or a receipt, is whole. Linux's own file systems sync more than they must, so what was asked of the system is held
// against the rule of POSIX: a name stands once the folder that holds it was synced after it was made.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { expect, test } from 'vitest'

const hasTrace = spawnSync('strace', ['-V']).status === 0
const program = resolve(import.meta.dirname, '..', 'support', 'land-once.ts')

/** Names that a power cut would take away again. @param before folders that stood already */
const unsynced = (calls: string, before: string): string[] => {
  const pending = new Set<string>()
  for (const line of calls.split('\n')) {
    if (/ = -1 /.test(line)) continue
    const made =
      /\bmkdir(?:at)?\((?:AT_FDCWD[^,]*, )?"([^"]+)"/.exec(line)?.[1] ??
      /\bopenat\(AT_FDCWD[^,]*, "([^"]+)", [^)]*O_CREAT/.exec(line)?.[1] ??
      /\b(?:rename|link)\w*\(.*"([^"]+)"/.exec(line)?.[1]
    if (made?.startsWith(before)) pending.add(made)
    const synced = /\bfsync\(\d+<([^>]+)>/.exec(line)?.[1]
    // A file's own bytes are synced under the name it has at that time.
    if (synced !== undefined) for (const name of [...pending]) if (dirname(name) === synced) pending.delete(name)
  }
  return [...pending]
}

/** Names that a file has only until it is whole. */
const isPassing = (name: string): boolean => /\.tmp$|\/\.[^/]+$/.test(name)

test.runIf(hasTrace)('every folder that a landing or a receipt needs is synced, up to the one that was there before', () => {
  const before = mkdtempSync(join(tmpdir(), 'millrace-cut-'))
  try {
    const root = join(before, 'home', 'landings')
    const trace = join(before, 'calls')
    const calls = 'trace=mkdir,mkdirat,openat,rename,renameat,renameat2,link,linkat,fsync'
    const landOnce = (): string => {
      const command = ['-f', '-y', '-s', '500', '-e', calls, '-o', trace, process.execPath, program, root]
      const { status, stderr } = spawnSync('strace', command, { encoding: 'utf8' })
      expect(status, stderr).toBe(0)
      return readFileSync(trace, 'utf8')
    }
    const seen = landOnce()
    expect(seen).toContain('manifest.json')
    expect(unsynced(seen, join(before, 'home')).filter((name) => !isPassing(name))).toEqual([])
    // Folders that another process made a moment ago may not be synced yet: whoever lands in them syncs them as well.
    const [month] = readdirSync(join(root, 'traffic_v1'))
    const synced = landOnce()
    for (const folder of [root, join(root, 'traffic_v1'), join(root, 'traffic_v1', month ?? '')])
      expect(synced).toMatch(new RegExp(`fsync\\(\\d+<${folder}>`))
  } finally {
    rmSync(before, { recursive: true })
  }
})
