// systemd units, as systemd-analyze judges them; where it is not installed, nothing is said of them.
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

export const hasSystemd = (): boolean => spawnSync('systemd-analyze', ['--version'], { stdio: 'ignore' }).status === 0

/** systemd counts what a service could still do, in tenths from 0 to 10 (most services of a system have 9 and more). */
const mostExposure = 20

const exposure = (file: string): string[] => {
  const args = ['security', '--no-pager', '--offline=yes', `--threshold=${mostExposure}`, file]
  const { status, stdout, stderr } = spawnSync('systemd-analyze', args, { encoding: 'utf8' })
  // Before version 250 it judges only units that run.
  if (status === 0 || /unrecognized option/.test(stderr)) return []
  const said = /Overall exposure.*$/m.exec(stdout)?.[0] ?? stderr.trim()
  return [`${basename(file)}: ${said}; more than ${mostExposure / 10} is too much.`]
}

/** Problems in systemd's words, none where all units are good. */
export const lintUnits = (units: readonly { readonly name: string; readonly text: string }[]): string[] => {
  if (units.length === 0 || !hasSystemd()) return []
  const folder = mkdtempSync(join(tmpdir(), 'millrace-units-'))
  try {
    // The program and the unit it waits for are looked for where the unit is verified; stand-ins are enough.
    mkdirSync(join(folder, 'bin'))
    const program = join(folder, 'bin', 'millrace')
    writeFileSync(program, '#!/bin/sh\n')
    chmodSync(program, 0o755)
    for (const { name, text } of units)
      writeFileSync(join(folder, basename(name)), text.replaceAll(/^(ExecStart=)\/\S+/gm, `$1${program}`))
    const files = units.map(({ name }) => join(folder, basename(name)))
    const { stdout, stderr, status } = spawnSync('systemd-analyze', ['verify', '--man=no', ...files], { encoding: 'utf8' })
    const said = `${stdout}${stderr}`.split('\n').filter((line) => line.includes(folder) || /^(millrace\S*):/.test(line))
    const problems = said.map((line) => line.replaceAll(`${folder}/`, ''))
    if (problems.length === 0 && status !== 0) problems.push(`systemd-analyze verify: ${stdout}${stderr}`)
    return [...problems, ...files.filter((file) => file.endsWith('.service')).flatMap(exposure)]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
