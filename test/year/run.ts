// `node test/year/run.ts`: a year of nights over a PostgreSQL of its own. `--write` puts the figures into docs/internals/reliability.md.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SingleBar } from 'cli-progress'
import pg from 'pg'
import { startEmbedded } from '../../src/db/embedded.ts'
import { writeSection } from '../storm/reliability-page.ts'
import { judgeYear } from './findings.ts'
import { pricedSection } from './priced-section.ts'
import { createPricedWorld } from './priced-world.ts'
import { judgePricedYear, livePricedYear } from './priced-year.ts'
import { createYearWorld } from './world.ts'
import { liveThroughYear } from './year.ts'
import { yearSection } from './year-section.ts'

const { values } = parseArgs({
  options: {
    start: { type: 'string', default: '2026-01-01' },
    end: { type: 'string', default: '2027-01-01' },
    write: { type: 'boolean', default: false },
    // The year with a price alone.
    priced: { type: 'boolean', default: false },
  },
})
const home = mkdtempSync(join(tmpdir(), 'millrace-year-db-'))
const server = await startEmbedded(home)
const bar = new SingleBar({ format: '{bar} {day}', stream: process.stderr, noTTYOutput: true, notTTYSchedule: 10_000 })
try {
  const urls = await makeDatabases(server.url.reveal())
  const wrong = [...(values.priced ? [] : await plainYear(urls)), ...(await pricedYear(urls.priced))]
  for (const line of wrong) process.stdout.write(`wrong: ${line}\n`)
  process.exitCode = wrong.length > 0 ? 1 : 0
} finally {
  bar.stop()
  await server.release()
  rmSync(home, { recursive: true, force: true })
}

async function plainYear(urls: { readonly year: string; readonly fresh: string }): Promise<readonly string[]> {
  const world = await createYearWorld(urls.year, { start: values.start, end: values.end })
  const started = Date.now()
  bar.start(Math.round((world.endMs - world.startMs) / 86_400_000), 0, { day: values.start })
  await liveThroughYear(world, (day) => bar.increment({ day }))
  bar.stop()
  const seconds = (Date.now() - started) / 1000
  const figures = await judgeYear(world, urls.fresh)
  const section = yearSection(world, figures, seconds)
  process.stdout.write(section)
  if (values.write) writeSection('A year of nights', section)
  await world.close()
  return figures.wrong
}

async function pricedYear(url: string): Promise<readonly string[]> {
  const world = await createPricedWorld(url, { start: values.start, end: values.end })
  const started = Date.now()
  bar.start(Math.round((world.endMs - world.startMs) / 86_400_000), 0, { day: values.start })
  const lived = await livePricedYear(world, (day) => bar.increment({ day }))
  bar.stop()
  const seconds = (Date.now() - started) / 1000
  const runtime = await world.open()
  const figures = await judgePricedYear(world, runtime, lived)
  await runtime.close()
  const section = pricedSection(world, figures, seconds)
  process.stdout.write(section)
  if (values.write) writeSection('A year with a price', section)
  await world.close()
  return figures.wrong
}

async function makeDatabases(
  serverUrl: string,
): Promise<{ readonly year: string; readonly fresh: string; readonly priced: string }> {
  const admin = new pg.Client({ connectionString: serverUrl })
  await admin.connect()
  const urlOf = async (name: string): Promise<string> => {
    await admin.query(`create database ${name}`)
    const url = new URL(serverUrl)
    url.pathname = `/${name}`
    return url.href
  }
  const urls = { year: await urlOf('year'), fresh: await urlOf('fresh'), priced: await urlOf('priced') }
  await admin.end()
  return urls
}
