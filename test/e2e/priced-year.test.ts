// Two weeks of the simulated year with a price; `node test/year/run.ts --priced` lives through the whole.
import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { createPricedWorld } from '../year/priced-world.ts'
import { judgePricedYear, livePricedYear } from '../year/priced-year.ts'

test('nights under the guard buy the usual, hold a mistake in a list until it is gone, and count every credit as the service does', async () => {
  const admin = new pg.Client({ connectionString: inject('postgresUrl') })
  await admin.connect()
  const name = `millrace_priced_${process.pid}`
  await admin.query(`create database ${name}`)
  const url = Object.assign(new URL(inject('postgresUrl')), { pathname: `/${name}` }).href
  const world = await createPricedWorld(url, { start: '2026-05-14', end: '2026-05-26', waveSize: 300 })
  try {
    const lived = await livePricedYear(world)
    const runtime = await world.open()
    const figures = await judgePricedYear(world, runtime, lived)
    await runtime.close()
    expect(figures.wrong).toEqual([])
    expect(figures).toMatchObject({ credits: world.sandbox.books().quotaUsed })
    expect(figures.heldCredits).toBeGreaterThan(20_000)
  } finally {
    await world.close()
    await admin.query(`drop database ${name} with (force)`)
    await admin.end()
  }
}, 240_000)
