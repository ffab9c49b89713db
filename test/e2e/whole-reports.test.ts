// Reports that lack rows are never loaded and never bought again; whole ones always are. `WHOLE_REPORTS=100 npx vitest run test/e2e/whole-reports.test.ts` tries 100 seeded cases.
import { describe, expect, test } from 'vitest'
import { createTestDatabase } from '../support/postgres.ts'
import { caseOf, tryCase, type Warehouse } from '../storm/whole-reports.ts'

const cases = Number(process.env['WHOLE_REPORTS'] ?? 0)
/** A first report and a later one. */
const sample = [5, 12]
const seeds = cases > 0 ? Array.from({ length: cases }, (_, at) => at + 1) : sample

const newWarehouse = async (): Promise<Warehouse> => {
  const db = await createTestDatabase()
  return {
    url: db.url,
    count: async (question) => Number((await db.query<{ n: string }>(question))[0]?.n ?? 0),
    change: async (statement) => {
      await db.database.pool.query(statement)
    },
    drop: () => db.drop(),
  }
}

describe('a report that is not whole', () => {
  test.each(seeds.map((seed) => [seed, caseOf(seed)] as const))(
    'is held with both numbers, the whole one is loaded: seed %i',
    async (_, one) => {
      const outcome = await tryCase(one, newWarehouse)
      expect({ ...outcome, wholeRows: outcome.wholeRows - outcome.soldRows, soldRows: outcome.soldRows > 0 }).toEqual({
        case: one,
        damagedRows: 0,
        wholeRows: 0,
        soldRows: true,
        boughtAgain: 0,
        isSaid: true,
        codes: one.isFirst ? [1, 1, 0, 0] : [0, 1, 1, 0, 0, 0],
      })
    },
    600_000,
  )
})
