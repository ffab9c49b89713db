// What attributes/domains.csv with many lines costs `millrace migrate`: new, the same again, one in a hundred changed, and the file gone; beside a migration
// without attributes. Run: node bench/attributes.ts [--rows 100000] [--page docs/internals/performance-bi.md]
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { openDatabase } from '../src/db/connect.ts'
import { startEmbedded } from '../src/db/embedded.ts'
import { writeSection } from './bi-page.ts'
import { runMeasured } from './measured-command.ts'

const { values: options } = parseArgs({ options: { rows: { type: 'string', default: '100000' }, page: { type: 'string' } } })
const rows = Number(options.rows)
const count = new Intl.NumberFormat('en-US')

/** Lines of every hundredth domain have another group in each `edition`. */
const fileOf = (edition: number): string => {
  const lines = Array.from({ length: rows }, (_, at) => {
    const group = `Group ${(at % 50) + (at % 100 === 0 ? edition : 0)}`
    return `domain-${at}.example,${group},${at % 3 === 0 ? 'own' : 'competitor'},brand ${at}|b${at}`
  })
  return `${['domain,group,ownership,brand_terms', ...lines].join('\n')}\n`
}

const folder = mkdtempSync(join(tmpdir(), 'millrace-attributes-'))
const file = join(folder, 'attributes', 'domains.csv')
const server = await startEmbedded(join(folder, 'server'))
try {
  cpSync(resolve(import.meta.dirname, '..', 'pipelines'), join(folder, 'pipelines'), { recursive: true })
  const environment = { DATABASE_URL: server.url.reveal(), MILLRACE_HOME: join(folder, 'home') }
  const lines: string[] = []
  const migrate = async (what: string, changed: number, ended: number): Promise<void> => {
    const expected = { 'attributes.changed': changed, 'attributes.ended': ended }
    const { seconds, peakMegabytes } = await runMeasured({ folder, environment }, ['migrate'], expected)
    lines.push(`| ${what} | ${seconds.toFixed(1)} s | ${peakMegabytes?.toFixed(0) ?? 'not known'} MB |`)
  }
  // The tables are made beforehand: what they take is not what is measured.
  await runMeasured({ folder, environment }, ['migrate'], {})
  const database = await openDatabase({ databaseUrl: server.url, home: folder })
  await database.pool.query(
    `insert into bi.dim_domain (domain) select 'domain-' || n || '.example' from generate_series(0, ${rows - 1}) n`,
  )
  await database.close()
  await migrate('no attributes', 0, 0)
  mkdirSync(join(folder, 'attributes'))
  writeFileSync(file, fileOf(0))
  await migrate('all lines are new', rows, 0)
  await migrate('none changed', 0, 0)
  writeFileSync(file, fileOf(1))
  await migrate('one in a hundred changed', Math.ceil(rows / 100), 0)
  rmSync(file)
  await migrate('the file is gone', 0, rows)
  const section = [
    `| attributes of ${count.format(rows)} domains | \`migrate\` takes | its memory at most |`,
    '| --- | --- | --- |',
    ...lines,
  ]
  process.stdout.write(`${section.join('\n')}\n`)
  if (options.page !== undefined) writeSection(options.page, 'attributes', section.join('\n'))
} finally {
  await server.release()
  rmSync(folder, { recursive: true, force: true })
}
