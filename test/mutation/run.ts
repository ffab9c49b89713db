// The mutation check: plants one small mistake after the other and looks whether the tests concerned notice. Seeded; --write puts the figures into docs/internals/reliability.md.
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { startEmbedded } from '../../src/db/embedded.ts'
import { sectionNow, writeSection } from '../storm/reliability-page.ts'
import { type Mutant, mutantsOf } from './mutants.ts'
import { type MutationFigures, mutationSection } from './mutation-section.ts'
import { openSession, type Session } from './open-session.ts'
import { targets } from './targets.ts'

const root = resolve(import.meta.dirname, '..', '..')
/** Everything is copied but what is linked, or belongs to a checkout. */
const left = new Set(['node_modules', '.git', 'dist'])

const { values: options } = parseArgs({
  options: {
    sample: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    parallel: { type: 'string', default: '2' },
    /** Seconds: a mutant that runs longer loops or waits for ever, and is noticed. */
    limit: { type: 'string', default: '120' },
    /** After so many no further mutant is tried; those before are a seeded sample. */
    minutes: { type: 'string' },
    /** Only the first file of tests, which is the quickest: what survives that may be noticed by the others. */
    first: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
})

const title = 'Mutation check'
const isTimeUp = (): boolean => options.minutes !== undefined && performance.now() > Number(options.minutes) * 60_000
const limitMs = Number(options.limit) * 1000

interface Task {
  readonly mutant: Mutant
  readonly tests: readonly string[]
}

const allTasks = (): Task[] =>
  targets.flatMap(({ files, tests: all }) => {
    const tests = options.first ? all.slice(0, 1) : all
    return files
      .filter((file) => options.only.split(',').some((part) => file.includes(part)))
      .flatMap((file) => mutantsOf(file, readFileSync(join(root, file), 'utf8')).map((mutant) => ({ mutant, tests })))
  })

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
  for (const name of readdirSync(root).filter((one) => !left.has(one)))
    cpSync(join(root, name), join(copy, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  return copy
}

const write = (path: string, text: string): void => {
  writeFileSync(`${path}.new`, text)
  renameSync(`${path}.new`, path)
}

const survives = async (copy: string, session: Session, { mutant, tests }: Task): Promise<boolean> => {
  const path = join(copy, mutant.file)
  const before = readFileSync(path, 'utf8')
  write(path, mutant.source)
  try {
    // Most are noticed by the first file, which is the quickest.
    const [first, others] = [tests.slice(0, 1), tests.slice(1)]
    const isMissed = async (): Promise<boolean> =>
      (await session.passes(first, [path], limitMs)) && (others.length === 0 || (await session.passes(others, [], limitMs)))
    if (!(await isMissed())) return false
    // A process that stays may still have the file as it was before.
    await session.end()
    return await isMissed()
  } finally {
    write(path, before)
  }
}

const show = ({ file, line, kind, before }: Mutant): string => `${file}:${line} ${kind}: ${before}`

interface Checked {
  readonly tried: number
  readonly survivors: readonly Mutant[]
}

const check = async (tasks: readonly Task[], folder: string, databaseUrl: string): Promise<Checked> => {
  const survivors: Mutant[] = []
  const waiting = [...tasks]
  let done = 0
  const work = async (_: unknown, index: number): Promise<void> => {
    const copy = makeCopy(folder, index)
    const session = openSession(copy, databaseUrl)
    if (index === 0) {
      const tests = [...new Set(tasks.flatMap((task) => task.tests))]
      // All of them at once, as they are for no mutant.
      if (!(await session.passes(tests, [], 10 * limitMs)))
        throw new Error(`the tests fail without any mutant: ${tests.join(' ')}`)
    }
    for (
      let task = isTimeUp() ? undefined : waiting.shift();
      task !== undefined;
      task = isTimeUp() ? undefined : waiting.shift()
    ) {
      if (await survives(copy, session, task)) {
        survivors.push(task.mutant)
        console.log(`survived ${show(task.mutant)}`)
      }
      done += 1
      if (done % 10 === 0) console.error(`${done}/${tasks.length}, ${survivors.length} survived`)
    }
    await session.end()
  }
  await Promise.all(Array.from({ length: Number(options.parallel) }, work))
  return { tried: done, survivors }
}

const figuresOf = (all: readonly Task[], { tried, survivors }: Checked): MutationFigures => ({
  sample: Number(options.sample),
  seed: Number(options.seed),
  only: options.only,
  isFirst: options.first,
  files: [...new Set(all.map(({ mutant }) => mutant.file))],
  mutants: all.length,
  tried,
  noticed: tried - survivors.length,
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
    const checked = await check(tasks, folder, server.url.reveal())
    const { tried, survivors } = checked
    const noticed = tried - survivors.length
    console.log(
      `${noticed} of ${tried} mutants noticed (${((100 * noticed) / tried).toFixed(1)} %), of ${all.length} there are; seed ${options.seed}`,
    )
    if (options.write) writeSection(title, mutationSection(figuresOf(all, checked), sectionNow(title)))
    process.exitCode = noticed / tried >= 0.9 ? 0 : 1
  } finally {
    await server.release()
    rmSync(folder, { recursive: true, force: true })
  }
}

await main()
