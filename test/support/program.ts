// The program as it is shipped: compiled and laid out as npm installs it, so that what tests start is what users get.
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { writeProgram } from '../../scripts/bundle.ts'
import { launcherName } from './command.ts'

const repository = resolve(import.meta.dirname, '..', '..')

/** Compiles; from here on `runCommand` of this process and its children starts the result. @returns takes it away again. */
export const useCompiledProgram = async (): Promise<() => void> => {
  // Below node_modules, so that the libraries which are not part of it are found as beside an installed package.
  const cache = join(repository, 'node_modules', '.cache')
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'millrace-'))
  for (const path of ['bin', 'package.json']) cpSync(join(repository, path), join(folder, path), { recursive: true })
  await writeProgram(join(folder, 'dist'))
  process.env[launcherName] = join(folder, 'bin', 'millrace.js')
  return () => rmSync(folder, { recursive: true, force: true })
}
