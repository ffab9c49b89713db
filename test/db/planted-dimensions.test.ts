// What adds up over what: each dimension whose values come with their whole is planted, its parts holding together exactly what the whole holds. Whatever a metric is, asked of all parts
// together it must say what it says of the whole, or be refused: no figure counts twice what is in two parts.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadMarts } from '../../src/definition/marts.ts'
import { type Metric, type SemanticModel, type Subject, windowOf } from '../../src/definition/semantic.ts'
import { answerQuery } from '../../src/semantic/answer.ts'
import type { Reader } from '../../src/semantic/reader.ts'
import { allMetrics, QueryRefusedError } from '../../src/semantic/query.ts'
import { type KeywordFact, putWorld, type TrafficFact, worldMonths } from '../support/figure-world.ts'
import { openFigures } from '../support/open-figures.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let model: SemanticModel
let reader: Reader

/** As docs/definition.md has them under "filters as things to run for"; and the countries beside the world. */
const planted = {
  traffic_source: { whole: 'All', parts: ['Organic', 'Paid'] },
  web_source: { whole: 'Total', parts: ['Desktop', 'MobileWeb'] },
  branded_type: { whole: 'All', parts: ['Branded', 'NonBranded'] },
  country: { whole: 'world', parts: ['us', 'gb'] },
} as const
type Planted = keyof typeof planted
const wholes = { traffic_source: 'All', web_source: 'Total', branded_type: 'All', country: 'world' }

const months = worldMonths.slice(0, 3)
const domains = ['acme.com', 'rival.com', 'other.com']
const words = ['shoes', 'acme shoes', 'sandals', 'boots']

/** A keyword of which the second month lacks every third and the third month has other clicks. */
const keywordFacts = (dimension: Planted): KeywordFact[] =>
  months.flatMap((month, at) =>
    domains.flatMap((domain, place) =>
      words.flatMap((keyword, index) => {
        if ((index + place + at) % 3 === 0) return []
        const row = {
          ...{
            ...wholes,
            month,
            domain,
            keyword,
            top_url: `${domain}/${keyword}`,
            clicks: 40 * (1 + index + at),
            position: 1 + 3 * index,
          },
          ...{ volume: 100 * (1 + index), zero_clicks_share: 0.5, difficulty: 10 * index, cpc: 2, traffic_share: 0.25 },
          ...{ primary_intent: index % 2 === 0 ? 'Commercial' : 'Informational', serp_features: ['news', 'video'] },
        }
        // Who searches in one country does not in another; the same search is on any device, for whatever kind of click.
        const volume = dimension === 'country' ? row.volume / 2 : row.volume
        return [row, ...planted[dimension].parts.map((part) => ({ ...row, [dimension]: part, clicks: row.clicks / 2, volume }))]
      }),
    ),
  )

const trafficFacts = (): TrafficFact[] =>
  months.flatMap((date, at) =>
    domains.flatMap((domain, place) => {
      const visits = 400 * (1 + at + place)
      const row = (country: string, share: number): TrafficFact => ({
        ...{
          date,
          domain,
          country,
          all_traffic_visits: visits * share,
          mobile_visits: (visits * share) / 4,
          desktop_visits: (visits * share * 3) / 4,
        },
        ...{ all_page_views: visits * 3 * share, desktop_unique_visitors: visits / 8, mobile_unique_visitors: visits / 16 },
      })
      return [row('world', 1), row('us', 0.5), row('gb', 0.5)]
    }),
  )

beforeAll(async () => {
  ;({ model, reader } = await openFigures(db))
})
afterAll(() => reader.close())

/** Everything but the planted dimension one by one, where it does not add up. */
const ask = async (
  { name, neverOver, formula }: Metric,
  { time, dimensions }: Subject,
  dimension: Planted,
  values: readonly string[],
) => {
  const by = [...neverOver.keys(), ...(formula.kind === 'share' ? [formula.over] : [])].filter(
    (one) => dimensions.has(one) && one !== dimension,
  )
  const alone = [...(Object.keys(planted) as Planted[])].filter((one) => one !== dimension && dimensions.has(one))
  const { rows } = await answerQuery(reader, model, {
    metrics: [name],
    by: by.filter((one) => !alone.includes(one as Planted)),
    ...(time !== null && (neverOver.has(time.column) || windowOf({ formula }) !== null) ? { grain: 'month' } : {}),
    where: [
      { dimension, is: [...values] },
      ...alone.map((one) => ({ dimension: one, is: planted[one].whole })),
      ...(dimensions.has('months_back') ? [{ dimension: 'months_back', is: 1 }] : []),
    ],
  })
  return rows
}

describe.each(Object.keys(planted) as Planted[])('%s', (dimension) => {
  beforeAll(async () => {
    await putWorld(db, { keywords: keywordFacts(dimension), traffic: trafficFacts(), shop: [] }, await loadMarts([]))
  })

  test('of its parts together every metric says what it says of their whole, or is refused', async () => {
    const { whole, parts } = planted[dimension]
    const outcome = { same: [] as string[], refused: [] as string[] }
    for (const { metric, subject } of allMetrics(model)) {
      if (subject.pipeline === null || !subject.dimensions.has(dimension)) continue
      const wanted = await ask(metric, subject, dimension, [whole])
      expect(wanted.length, metric.name).toBeGreaterThan(0)
      try {
        expect(await ask(metric, subject, dimension, parts), metric.name).toEqual(wanted)
        outcome.same.push(metric.name)
      } catch (error) {
        if (!(error instanceof QueryRefusedError)) throw error
        expect(error.message).toMatch(new RegExp(`^${metric.name} does not add up over ${dimension}: `))
        outcome.refused.push(metric.name)
      }
    }
    expect(outcome.refused).toEqual(
      expect.arrayContaining([
        'keywords',
        'keywords_top_three',
        ...(dimension === 'country' ? [] : ['searches', 'zero_click_share']),
      ]),
    )
    expect(outcome.same).toEqual(
      expect.arrayContaining(['clicks', 'keyword_count', 'average_position', 'clicks_change', 'page_clicks']),
    )
  })
})
