// The generated dbt project on a warehouse: parsed, built, and its metrics compiled by MetricFlow.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { z } from 'zod'
import type { Db } from '../../src/db/tables.ts'
import { type SemanticModel, windowOf } from '../../src/definition/semantic.ts'
import { compileQuery } from '../../src/semantic/compile-question.ts'
import { querySchema } from '../../src/semantic/query.ts'

const repository = resolve(import.meta.dirname, '..', '..')
const compiled = z.array(z.union([z.object({ sql: z.string() }), z.object({ error: z.string() })]))

/** A question as MetricFlow takes it. */
export interface DbtQuestion {
  readonly metrics: readonly string[]
  readonly by: readonly string[]
  readonly where: readonly string[]
  readonly order: readonly string[]
  readonly limit: number | null
}

export interface DbtProject {
  /** What `dbt` printed; throws where it failed. */
  run(...args: readonly string[]): string
  /** A statement a question, or why there is none. */
  compile(questions: readonly DbtQuestion[]): z.output<typeof compiled>
  /** Puts a file of one's own in. */
  write(path: string, text: string): void
  remove(): void
}

/** @param bin folder of dbt and its Python @param url of a login that only reads bi */
export const openDbtProject = (bin: string, url: string): DbtProject => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-dbt-'))
  cpSync(join(repository, 'docs', 'dbt'), folder, { recursive: true })
  const { hostname, port, username, password, pathname } = new URL(url)
  const output = {
    type: 'postgres',
    host: hostname,
    port: Number(port || 5432),
    user: username,
    password: password || 'none',
    dbname: pathname.slice(1),
    schema: 'bi',
    threads: 2,
  }
  writeFileSync(join(folder, 'profiles.yml'), JSON.stringify({ millrace: { target: 'test', outputs: { test: output } } }))
  const env = { ...process.env, DBT_SEND_ANONYMOUS_USAGE_STATS: 'false' }
  const start = (program: string, args: readonly string[], input = ''): string => {
    const { status, stdout, stderr } = spawnSync(join(bin, program), [...args], {
      cwd: folder,
      env,
      input,
      encoding: 'utf8',
      maxBuffer: 1 << 28,
    })
    if (status !== 0)
      throw new Error(`${program} ${args.join(' ')} ended with ${status}:\n${stdout.slice(-4_000)}\n${stderr.slice(-4_000)}`)
    return stdout
  }
  return {
    run: (...args) => start('dbt', [...args, '--profiles-dir', '.']),
    compile: (questions) => {
      const said = start('python', [join(repository, 'test', 'clients', 'dbt_metrics.py')], JSON.stringify(questions))
      return compiled.parse(JSON.parse(said.slice(said.lastIndexOf('\n') + 1)))
    },
    write: (path, text) => {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), text)
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** null: MetricFlow has no such question (a comparison, as of a moment). Defaults of the files are written out. */
export const dbtQuestionOf = (db: Db, model: SemanticModel, input: Record<string, unknown>): DbtQuestion | null => {
  const query = querySchema.parse(input)
  if (query.compare !== undefined || query.as_of !== undefined || query.fill) return null
  const { subject, rowOf, spans, cells, metrics } = compileQuery(db, model, query)
  if (metrics.some((metric) => windowOf(metric) !== null)) return null
  const named = (name: string): string => {
    const of = subject.dimensions.get(name)?.of ?? null
    return `${of === null ? `one_${subject.name}` : `of_${of}`}__${name}`
  }
  const dimension = (name: string): string => `{{ Dimension('${named(name)}') }}`
  const rows = subject.time?.grains[0] ?? 'day'
  const period = `{{ TimeDimension('${named('period')}', '${rows}') }}`
  const byColumn = (column: string): string =>
    [...subject.dimensions.values()].find((one) => one.column === column)?.name ?? column
  const grain = query.grain ?? rows
  return {
    metrics: metrics.map(({ name }) => name),
    by: rowOf.map((name) => (name === 'period' ? `${named('period')}__${grain}` : named(name))),
    where: [
      ...spans.flatMap(({ from, to }) => [`${period} >= ${literal(from)}`, `${period} < ${literal(to)}`]),
      ...cells.map(
        ({ column, isNot, values }) =>
          `${dimension(byColumn(column))} ${isNot ? 'not in' : 'in'} (${values.map(literal).join(', ')})`,
      ),
      ...query.where.flatMap(({ dimension: name, contains, at_most, at_least }) => [
        ...(contains === undefined ? [] : [`position(lower(${literal(contains)}) in lower(${dimension(name)})) > 0`]),
        ...(at_most === undefined ? [] : [`${dimension(name)} <= ${at_most}`]),
        ...(at_least === undefined ? [] : [`${dimension(name)} >= ${at_least}`]),
      ]),
    ],
    order:
      query.limit === 100
        ? []
        : [
            `-${metrics[0]?.name ?? ''}`,
            ...rowOf.map((name) => (name === 'period' ? `${named('period')}__${grain}` : named(name))),
          ],
    limit: query.limit === 100 ? null : query.limit,
  }
}
