// tests of a definition: what may be said of the rows, where a mistake stands, and how a test reads to people.
import { describe, expect, test } from 'vitest'
import { expectationOf, findingWords } from '../../../src/core/data-test.ts'
import { showProblem } from '../../../src/definition/problem.ts'
import { check, contractExample } from './checking.ts'

const withTests = (tests: string): string => `${contractExample}tests:\n${tests}`
const problemsOf = (tests: string): string => check(withTests(tests)).problems.map(showProblem).join('\n')

describe('tests of a definition', () => {
  test('say what the rows must be, in the words people read', () => {
    const { definitions, problems } = check(
      withTests(`  share: { column: traffic_share, range: 0..1, allow: 1%, on_failure: hold }
  features: { column: serp_features, accepted: [news, video] }
  known: { column: traffic_share, not_null: 95% }
  adds_up: { column: clicks, sum_of: [clicks, traffic_share], within: 1%, on_failure: hold }
  exact: { column: clicks, sum_of: [clicks] }
  jump: { column: clicks, ratio: 0.2..5, at_least: 1000, on_failure: hold }
  there: { ratio: 0.5.. }
  moved: { column: clicks, restated: 20% }
`),
    )
    expect(problems).toEqual([])
    expect(definitions[0]?.tests.map((one) => `${one.name} ${one.onFailure}: ${expectationOf(one)}`)).toEqual([
      'share hold: traffic_share is from 0 to 1, but for 1% of the rows',
      'features warn: serp_features is one of news, video',
      'known warn: traffic_share has a value in at least 95% of the rows',
      'adds_up hold: clicks is clicks + traffic_share, within 1%',
      'exact warn: clicks is clicks, within 0',
      'jump hold: the sum of clicks is from 0.2 to 5 times that of the period before, where either is 1,000 or more',
      'there warn: the number of rows is at least 0.5 times that of the period before',
      'moved warn: the sum of clicks is within 20% of what is loaded',
    ])
    expect(check(contractExample).definitions[0]?.tests).toEqual([])
  })

  test('say what they found', () => {
    const [share, , known, adds] =
      check(
        withTests(`  share: { column: clicks, range: 0.. }
  features: { column: serp_features, accepted: [news] }
  known: { column: clicks, not_null: 100% }
  adds_up: { column: clicks, sum_of: [traffic_share], within: 0.5 }
`),
      ).definitions[0]?.tests ?? []
    if (share === undefined || known === undefined || adds === undefined) throw new Error('no tests')
    const finding = { rows: 1000, failing: 1, found: '-3', expected: null, expectedFrom: null }
    expect(findingWords({ test: share, ...finding })).toBe(
      'share: expected that clicks is at least 0; 1 of 1,000 rows is outside, for example -3.',
    )
    expect(findingWords({ test: known, ...finding, failing: 2 })).toBe(
      'known: expected that clicks has a value in every row; 2 of 1,000 rows have none.',
    )
    expect(findingWords({ test: adds, ...finding, found: '12.25' })).toBe(
      'adds_up: expected that clicks is traffic_share, within 0.5; 1 of 1,000 rows differs, by up to 12.25.',
    )
  })

  test.each([
    ['  a: { column: clicks }\n', /p\.yaml:22:3: the test 'a' has no rule; add one of range, accepted/],
    [
      '  a: { column: clicks, range: 0..1, ratio: 0..2 }\n',
      /p\.yaml:22:37: the test 'a' has the rule range already; put ratio into a test of its own/,
    ],
    ['  a: { column: clicks, range: 0..1, within: 1% }\n', /p\.yaml:22:37: 'within' has no effect with range; remove it/],
    ['  a: { column: clicks, range: 2..1 }\n', /p\.yaml:22:31: tests\.a\.range is 2\.\.1, and 2 is more than 1/],
    ['  a: { column: clicks, range: .. }\n', /tests\.a\.range is '\.\.'; expected two numbers such as 0\.\.1, or with one end/],
    ['  a: { range: 0.. }\n', /tests\.a lacks column; name the column that range tests/],
    ['  a: { column: click, range: 0.. }\n', /p\.yaml:22:16: the table has no column 'click' to test\. Did you mean 'clicks'/],
    ['  a: { column: domain, accepted: [a.com] }\n', /'domain' does not come with the answer, so there is nothing to test/],
    ['  a: { column: keyword, range: 0.. }\n', /'keyword' is text; range tests columns of type bigint, integer, numeric/],
    ['  a: { column: clicks, sum_of: [clicks, top_url] }\n', /p\.yaml:22:41: 'top_url' is text; sum_of tests columns/],
    ['  a: { column: keyword, not_null: 100% }\n', /'keyword' always has a value; remove the test/],
    ['  a: { column: clicks, range: 0.., on_failure: stop }\n', /tests\.a\.on_failure is 'stop'; expected one of warn, hold/],
    ['  a: { column: clicks, rang: 0.. }\n', /p\.yaml:22:24: 'rang' is not known under tests\.a\. Did you mean 'range'\?/],
    ['  a: { column: clicks, not_null: 95 }\n', /tests\.a\.not_null is '95'; expected a share such as 50%/],
  ])('%s is a problem where it stands', (tests, message) => {
    expect(problemsOf(tests)).toMatch(message)
  })
})
