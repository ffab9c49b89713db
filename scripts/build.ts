// Makes dist/: the compiled, typed program and the files it reads at run time. `npm pack` runs it first.
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { writeProgram } from './bundle.ts'

const root = join(import.meta.dirname, '..')
const dist = join(root, 'dist')

rmSync(dist, { recursive: true, force: true })
const compiler = join(root, 'node_modules', '.bin', 'tsc')
const { status } = spawnSync(compiler, ['-p', join(root, 'tsconfig.build.json')], { stdio: 'inherit', cwd: root })
if (status !== 0) process.exit(status ?? 1)
await writeProgram(dist)
