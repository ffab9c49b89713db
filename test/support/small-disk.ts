// A disk of a size of its own, which is full when a test fills it.
import { spawnSync } from 'node:child_process'
import { closeSync, ftruncateSync, fstatSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const run = (command: string, ...args: string[]): void => {
  const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr || error?.message}`)
}

const can = (work: () => void): boolean => {
  try {
    work()
    return true
  } catch {
    return false
  }
}

export interface SmallDisk {
  readonly folder: string
  /** Until nothing more goes in. @param left but for so many bytes. Default: none */
  fill(left?: number): void
  free(): void
  remove(): void
}

/** A file system in memory of so many megabytes. Throws where none may be mounted. @param owner who may write there: user and group */
export const mountSmallDisk = (megabytes: number, owner?: { readonly uid: number; readonly gid: number }): SmallDisk => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-disk-'))
  const whose = owner === undefined ? '' : `,uid=${owner.uid},gid=${owner.gid}`
  run('mount', '-t', 'tmpfs', '-o', `size=${megabytes}m,mode=0700${whose}`, 'millrace-test', folder)
  const filler = join(folder, 'filler')
  return {
    folder,
    fill: (left = 0) => {
      const file = openSync(filler, 'a')
      const block = Buffer.alloc(64 * 1024)
      for (const size of [block.length, 4096, 1]) while (can(() => void writeSync(file, block, 0, size)));
      ftruncateSync(file, fstatSync(file).size - left)
      closeSync(file)
    },
    free: () => rmSync(filler, { force: true }),
    remove: () => {
      spawnSync('umount', ['-l', folder])
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Whether this user may mount anything here. */
export const mayMount = (): boolean => can(() => mountSmallDisk(1).remove())
