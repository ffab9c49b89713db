// The mutation check: plants one small mistake after the other and looks whether the tests concerned notice. Seeded; --write puts the figures into docs/reliability.md.
import { spawn } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { startEmbedded } from '../../src/db/embedded.ts'
import { writeSection } from '../storm/reliability-page.ts'
import { type Mutant, mutantsOf } from './mutants.ts'
import { type MutationFigures, mutationSection } from './mutation-section.ts'
import { targets } from './targets.ts'

const root = resolve(import.meta.dirname, '..', '..')
const copied = [
  'src',
  'test',
  'scripts',
  'templates',
  'dashboards',
  'migrations',
  'pipelines',
  'docs',
  'bin',
  'marts',
  'package.json',
  'tsconfig.json',
  'vitest.config.ts',
]

const { values: options } = parseArgs({
  options: {
    sample: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    parallel: { type: 'string', default: '2' },
    /** Seconds: a mutant that runs longer loops or waits for ever, and is noticed. */
    limit: { type: 'string', default: '120' },
    list: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
})

const limitMs = Number(options.limit) * 1000

interface Task {
  readonly mutant: Mutant
  readonly tests: readonly string[]
}

const allTasks = (): Task[] =>
  targets.flatMap(({ files, tests }) =>
    files
      .filter((file) => options.only.split(',').some((part) => file.includes(part)))
      .flatMap((file) => mutantsOf(file, readFileSync(join(root, file), 'utf8')).map((mutant) => ({ mutant, tests }))),
  )

/** The first `count` of an order that depends on the seed alone. */
const sampleOf = (tasks: readonly Task[], count: number, seed: number): Task[] => {
  let state = seed
  const random = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state
  }
  return tasks
    .map((task) => ({ task, order: random() }))
    .sort((left, right) => left.order - right.order)
    .slice(0, count)
    .map(({ task }) => task)
}

const makeCopy = (folder: string, index: number): string => {
  const copy = join(folder, String(index))
  for (const name of copied) if (existsSync(join(root, name))) cpSync(join(root, name), join(copy, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  return copy
}

/** True where every test passes. */
const testsPass = (copy: string, tests: readonly string[], databaseUrl: string): Promise<boolean> =>
  new Promise((done) => {
    const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
    const child = spawn('nice', ['-n', '10', process.execPath, vitest, 'run', ...tests, '--bail', '1', '--reporter', 'dot'], {
      cwd: copy,
      env: { ...process.env, TEST_DATABASE_URL: databaseUrl },
      stdio: 'ignore',
      detached: true,
    })
    const timer = setTimeout(() => {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    }, limitMs)
    child.on('close', (code) => {
      clearTimeout(timer)
      done(code === 0)
    })
  })

const write = (path: string, text: string): void => {
  writeFileSync(`${path}.new`, text)
  renameSync(`${path}.new`, path)
}

const survives = async (copy: string, { mutant, tests }: Task, databaseUrl: string): Promise<boolean> => {
  const path = join(copy, mutant.file)
  const before = readFileSync(path, 'utf8')
  write(path, mutant.source)
  try {
    // Most are noticed by the first file, which is the quickest.
    const [first, others] = [tests.slice(0, 1), tests.slice(1)]
    return (await testsPass(copy, first, databaseUrl)) && (others.length === 0 || (await testsPass(copy, others, databaseUrl)))
  } finally {
    write(path, before)
  }
}

const show = ({ file, line, kind, before }: Mutant): string => `${file}:${line} ${kind}: ${before}`

const check = async (tasks: readonly Task[], folder: string, databaseUrl: string): Promise<Mutant[]> => {
  const survivors: Mutant[] = []
  const waiting = [...tasks]
  let done = 0
  const work = async (_: unknown, index: number): Promise<void> => {
    const copy = makeCopy(folder, index)
    if (index === 0) {
      const tests = [...new Set(tasks.flatMap((task) => task.tests))]
      if (!(await testsPass(copy, tests, databaseUrl))) throw new Error(`the tests fail without any mutant: ${tests.join(' ')}`)
    }
    for (let task = waiting.shift(); task !== undefined; task = waiting.shift()) {
      if (await survives(copy, task, databaseUrl)) {
        survivors.push(task.mutant)
        console.log(`survived ${show(task.mutant)}`)
      }
      done += 1
      if (done % 10 === 0) console.error(`${done}/${tasks.length}, ${survivors.length} survived`)
    }
  }
  await Promise.all(Array.from({ length: Number(options.parallel) }, work))
  return survivors
}

const figuresOf = (all: readonly Task[], tasks: readonly Task[], survivors: readonly Mutant[]): MutationFigures => ({
  sample: tasks.length,
  seed: Number(options.seed),
  survivors: survivors.map(show).sort(),
  targets: targets.map(({ files }) => {
    const count = (mutants: readonly Mutant[]): number => mutants.filter(({ file }) => files.includes(file)).length
    const tried = count(tasks.map(({ mutant }) => mutant))
    return { files, mutants: count(all.map(({ mutant }) => mutant)), tried, noticed: tried - count(survivors) }
  }),
})

const main = async (): Promise<void> => {
  const all = allTasks()
  const tasks = sampleOf(all, Number(options.sample), Number(options.seed))
  if (options.list) {
    for (const { mutant } of tasks) console.log(show(mutant))
    return
  }
  const missing = tasks.flatMap(({ tests }) => tests).find((test) => !existsSync(join(root, test)))
  if (missing !== undefined) throw new Error(`${missing} is not there; see test/mutation/targets.ts`)
  const folder = mkdtempSync(join(tmpdir(), 'millrace-mutation-'))
  const server = await startEmbedded(join(folder, 'home'))
  try {
    const survivors = await check(tasks, folder, server.url.reveal())
    const killed = tasks.length - survivors.length
    console.log(
      `${killed} of ${tasks.length} mutants noticed (${((100 * killed) / tasks.length).toFixed(1)} %), of ${all.length} there are; seed ${options.seed}`,
    )
    if (options.write) writeSection('Mutation check', mutationSection(figuresOf(all, tasks, survivors)))
    process.exitCode = killed / tasks.length >= 0.9 ? 0 : 1
  } finally {
    await server.release()
    rmSync(folder, { recursive: true, force: true })
  }
}

await main()
