// Superset's own commands on the bundle in docs, as somebody runs them who has no Millrace at hand.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const start = (bin: string, program: string, args: readonly string[], folder?: string): void => {
  const { status, stdout, stderr } = spawnSync(join(bin, program), [...args], {
    encoding: 'utf8',
    cwd: folder,
    maxBuffer: 1 << 28,
  })
  if (status !== 0) throw new Error(`${program} ${args[0]} ended with ${status}: ${stdout.slice(-2_000)} ${stderr.slice(-2_000)}`)
}

/** As docs/superset.md says. @param bin folder of Superset's program and its Python */
export const importByCommand = (bin: string, repository: string, command = 'import-dashboards'): void => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-bundle-'))
  const bundle = join(folder, 'bundle.zip')
  try {
    start(bin, 'python3', ['-m', 'zipfile', '-c', bundle, 'superset-bundle'], join(repository, 'docs'))
    start(bin, 'superset', [command, '-p', bundle, '-u', 'admin'])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Gives the connection the address with its password. */
export const setAddress = (bin: string, url: string): void =>
  start(bin, 'superset', ['set-database-uri', '-d', 'Millrace', '-u', url.replace(/^postgres(ql)?:/, 'postgresql+psycopg2:')])
