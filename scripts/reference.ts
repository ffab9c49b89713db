// The parts of the docs that are tables of the code: error codes, the sandbox's options, endpoints and faults, sums that are right, goals of speed, drawn states.
// `node scripts/reference.ts` writes each between its marks; test/unit/docs.test.ts fails where one is stale.
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type GoalId, goals, show } from '../bench/goals.ts'
import { commands } from '../src/cli/commands.ts'
import { errorCodes, type Retry } from '../src/core/errors.ts'
import { jobTransitions, reportTransitions } from '../src/ledger/transitions.ts'
import { faultKinds } from '../src/sandbox/fault-kinds.ts'
import { optionsSchema } from '../src/sandbox/sandbox-options.ts'
import { routes } from '../src/sandbox/handle.ts'
import { metrics } from '../src/web/metrics.ts'
import { additivityTable } from '../test/support/additivity.ts'
import { drawingOf } from '../test/support/state-drawing.ts'

const docs = resolve(import.meta.dirname, '..', 'docs')

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')

const retries: Readonly<Record<Retry, string>> = { now: 'at once', later: 'later; costs no attempt', never: 'no' }

/** Where more than the code decides. */
const ofService = 'failed; waiting while the service is down'
const becomes: Readonly<Record<string, string>> = {
  SERVICE_UNREACHABLE: ofService,
  SERVICE_ERROR: ofService,
  SERVICE_TIMEOUT: ofService,
  FENCED: 'as the other process leaves it',
}

const errors = (): string =>
  table(
    ['code', 'meaning', 'tried again', 'the unit becomes'],
    Object.entries(errorCodes).map(([code, { meaning, retry, state }]) => [
      `\`${code}\``,
      meaning,
      retries[retry],
      becomes[code] ?? state,
    ]),
  )

/** What a reader asks about first; bench/RESULTS.md has all of them. */
const shownGoals: readonly GoalId[] = [
  'filled',
  'empty',
  'unchanged',
  'restated',
  'keywords',
  'keywords-50ms',
  'rate',
  'tiny',
  'memory',
  'memory-growth',
  'full-warehouse',
  'status',
  'night-reports',
  'night-memory',
  'plan-reports',
]

const speed = (): string =>
  table(
    ['work', 'goal', 'limit'],
    goals.filter(({ id }) => shownGoals.includes(id)).map((goal) => [goal.work, show(goal, goal.goal), show(goal, goal.limit)]),
  )

const blocks: Readonly<Record<string, { readonly page: string; readonly text: () => string }>> = {
  errors: { page: 'operations.md', text: errors },
  switches: {
    page: 'sandbox-reference.md',
    text: () =>
      table(
        ['option', 'does'],
        (commands.find(({ usage }) => usage === 'sandbox')?.options ?? []).map(({ flags, description }) => [
          `\`${flags}\``,
          description,
        ]),
      ),
  },
  options: {
    page: 'sandbox-reference.md',
    text: () =>
      table(
        ['option', 'default', 'does'],
        Object.entries(optionsSchema.parse({})).map(([name, value]) => [
          `\`${name}\``,
          JSON.stringify(value),
          Object(optionsSchema.shape)[name].description,
        ]),
      ),
  },
  endpoints: {
    page: 'sandbox-reference.md',
    text: () =>
      table(
        ['endpoint', 'key', 'with `--no-extensions`'],
        routes.map(({ method, path, key, isExtension }) => [`\`${method} ${path}\``, key, isExtension ? 'not there' : 'there']),
      ),
  },
  faults: {
    page: 'sandbox-reference.md',
    text: () =>
      table(
        ['kind', 'where', 'does'],
        Object.entries(faultKinds).map(([name, { on, does }]) => [`\`${name}\``, on, does]),
      ),
  },
  metrics: {
    page: 'status-page.md',
    text: () =>
      table(
        ['metric', 'labels', 'meaning'],
        Object.entries(metrics).map(([name, { help, labels }]) => [`\`millrace_${name}\``, labels.join(', '), help]),
      ),
  },
  sums: { page: 'what-adds-up.md', text: additivityTable },
  speed: { page: 'performance.md', text: speed },
  'job-states': { page: join('internals', 'how-it-works.md'), text: () => drawingOf(jobTransitions, 'plan') },
  'purchase-states': { page: join('internals', 'how-it-works.md'), text: () => drawingOf(reportTransitions, 'intend') },
}

const between = (name: string): RegExp =>
  new RegExp(`(<!-- generated: ${name}, [^\\n]* -->\\n)[\\s\\S]*?(<!-- end of ${name} -->)`)

/** By path below docs: each page as it must be. Throws where a page lacks the marks of one of its tables. */
export const referencePages = (): ReadonlyMap<string, string> => {
  const pages = new Map<string, string>()
  for (const [name, { page, text }] of Object.entries(blocks)) {
    const before = pages.get(page) ?? readFileSync(join(docs, page), 'utf8')
    if (!between(name).test(before)) throw new Error(`docs/${page} has no marks for ${name}`)
    pages.set(
      page,
      before.replace(between(name), (_, begin: string, end: string) => `${begin}${text()}\n${end}`),
    )
  }
  return pages
}

/** The page without these tables: what a person wrote. */
export const withoutReference = (text: string): string =>
  text.replaceAll(/<!-- generated: (\S+), [^\n]* -->\n[\s\S]*?<!-- end of \1 -->/g, '')

if (process.argv[1] === import.meta.filename) for (const [page, text] of referencePages()) writeFileSync(join(docs, page), text)
