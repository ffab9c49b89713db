// Figures that are not known where a domain is not loaded, or only its first rows are: compared with another month they are not 0.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Mart } from '../../src/core/mart.ts'
import type { SemanticModel } from '../../src/definition/semantic.ts'
import { type Answer, answerQuery } from '../../src/semantic/answer.ts'
import type { Reader } from '../../src/semantic/reader.ts'
import { type KeywordFact, putWorld } from '../support/figure-world.ts'
import { openFigures } from '../support/open-figures.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let marts: readonly Mart[]
let model: SemanticModel
let reader: Reader

beforeAll(async () => {
  ;({ marts, model, reader } = await openFigures(db))
})
afterAll(() => reader.close())

const ask = (question: Record<string, unknown>): Promise<Answer> => answerQuery(reader, model, question)

const row = (month: string, domain: string, keyword: string, clicks: number): KeywordFact => ({
  ...{ month, domain, country: 'us', traffic_source: 'All', web_source: 'Total', branded_type: 'All' },
  ...{ keyword, top_url: 'u', clicks, position: 1, volume: 10 },
})

test('what moved after a first month is not compared with a first month, of which nothing is known to have moved', async () => {
  const keywords = ['2025-09-01', '2025-10-01'].flatMap((month) =>
    ['boots', 'laces'].map((keyword) => row(month, 'acme.com', keyword, 5)),
  )
  await putWorld(db, { keywords, traffic: [], shop: [] }, marts)
  const period = { from: '2025-10', to: '2025-10' }
  const answer = await ask({ metrics: ['moved_keywords', 'moved_domains', 'clicks_lost'], period, compare: 'previous' })
  expect(answer.rows[0]).toMatchObject({
    moved_keywords: 2,
    moved_keywords_change: null,
    moved_domains: 1,
    moved_domains_change: null,
    clicks_lost_change: null,
  })
  expect(answer.compared).toMatchObject({ in_both: 0 })
})
