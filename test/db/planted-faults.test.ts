// What the shipped tests of traffic_and_engagement catch of planted faults. A sample here; `PLANTED_FAULTS=whole npx vitest run test/db/planted-faults.test.ts` takes 10,200 unit-months.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { shippedDefinition } from '../support/definitions.ts'
import { openLoading } from '../support/loading.ts'
import { type Caught, holding, plantAndLoad } from '../support/planted-faults.ts'
import { testDatabase } from '../support/postgres.ts'

const isWhole = process.env['PLANTED_FAULTS'] === 'whole'
const size = isWhole ? { domains: 100, months: 34 } : { domains: 15, months: 8 }

const db = testDatabase()

test('at least 95 % of planted jumps and zeroed domains fail a test, and at most 1 in 1,000 healthy unit-months', async () => {
  const kit = await openLoading(db, holding(await shippedDefinition('traffic_and_engagement')))
  const found = await plantAndLoad(kit, { seed: 19, every: 25, countries: ['us', 'gb', 'world'], ...size })
  if (isWhole) writeFigures(found)
  expect(found.missed.length, found.missed.join('\n')).toBeLessThanOrEqual(found.planted * 0.05)
  expect(found.falseAlarms.length, found.falseAlarms.join('\n')).toBeLessThanOrEqual(found.healthy / 1000)
  expect(found.planted).toBeGreaterThan(isWhole ? 300 : 5)
})

const page = join(import.meta.dirname, '..', '..', 'docs', 'internals', 'data-tests.md')
const marks =
  /(<!-- figures: PLANTED_FAULTS=whole npx vitest run test\/db\/planted-faults\.test\.ts -->\n)[\s\S]*?(<!-- end of figures -->)/

const writeFigures = ({ unitMonths, planted, caught, byFault, healthy, falseAlarms }: Caught): void => {
  const rows = Object.entries(byFault).map(([fault, one]) => `| ${fault} | ${one.planted} | ${one.caught} |`)
  const text = [
    `Of ${unitMonths.toLocaleString('en')} unit-months (100 domains, 3 countries, 34 months, seeded), ${planted} with a planted fault:`,
    '',
    '| fault | planted | caught |',
    '|---|---|---|',
    ...rows,
    `| all | ${planted} | ${caught} (${((caught / planted) * 100).toFixed(1)} %) |`,
    '',
    `False alarms: ${falseAlarms.length} in ${healthy.toLocaleString('en')} healthy unit-months with a row.`,
  ].join('\n')
  writeFileSync(page, readFileSync(page, 'utf8').replace(marks, `$1${text}\n$2`))
}
