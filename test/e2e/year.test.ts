// Seven weeks of the simulated year; `node test/year/run.ts` lives through the whole.
import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { judgeYear } from '../year/findings.ts'
import { createYearWorld } from '../year/world.ts'
import { liveThroughYear } from '../year/year.ts'

test('nights in three time zones, three of them missed, load every published version once and tell of everything once', async () => {
  const admin = new pg.Client({ connectionString: inject('postgresUrl') })
  await admin.connect()
  const stamp = `millrace_year_${process.pid}`
  const names = [stamp, `${stamp}_fresh`] as const
  const urlOf = (name: string): string => Object.assign(new URL(inject('postgresUrl')), { pathname: `/${name}` }).href
  for (const name of names) await admin.query(`create database ${name}`)
  const world = await createYearWorld(urlOf(names[0]), { start: '2026-08-01', end: '2026-09-23' })
  try {
    await liveThroughYear(world)
    const figures = await judgeYear(world, urlOf(names[1]))
    expect(figures.wrong).toEqual([])
    // Newly published months and those restated since; fewer would mean that the span was too short to show anything.
    expect(figures.versions).toBeGreaterThan(figures.windows)
    // A report covers all units that are due at once.
    expect(figures.reports).toBeGreaterThan(9)
  } finally {
    await world.close()
    for (const name of names) await admin.query(`drop database ${name} with (force)`)
    await admin.end()
  }
}, 240_000)
