// The tests that a definition has for the rows of a unit, run before they are loaded, and their findings in words.

/** `warn`: the rows are loaded and people are told; `hold`: the answer waits for a person. */
export const testActions = ['warn', 'hold'] as const
type TestAction = (typeof testActions)[number]

/** Decimal texts, both inclusive; null: no bound. */
export interface Bounds {
  readonly from: string | null
  readonly to: string | null
}

interface Named {
  readonly name: string
  readonly onFailure: TestAction
}

/** Tests each row. Fails where more than `allow` (0..1) of the rows that have a value break the rule. */
export type RowTest = Named & { readonly column: string; readonly allow: number } & (
    | { readonly kind: 'range'; readonly bounds: Bounds }
    | { readonly kind: 'accepted'; readonly values: readonly string[] }
    | { readonly kind: 'not_null' }
    | {
        readonly kind: 'sum_of'
        /** Columns whose sum the column must be. */
        readonly of: readonly string[]
        /** Allowed difference: a share of the column's value (0..1), or an amount as decimal text. */
        readonly within: { readonly share: number } | { readonly amount: string }
      }
  )

/** Compares the sum of `column` over the unit (null: its number of rows) with another total. Where a side has no value, the test says nothing. */
export type TotalTest = Named & {
  readonly column: string | null
  /** The test says nothing where both totals are smaller; decimal text. */
  readonly atLeast: string
} & (
    | { readonly kind: 'ratio'; readonly bounds: Bounds }
    | {
        readonly kind: 'restated'
        /** Allowed difference of the new sum, as a share of the loaded sum (0..1). */
        readonly share: number
      }
  )

export type DataTest = RowTest | TotalTest

export const isTotalTest = (test: DataTest): test is TotalTest => test.kind === 'ratio' || test.kind === 'restated'

/** What a test found in one unit. */
export interface TestFinding {
  readonly test: DataTest
  /** `rows`: rows that were tested; `failing`: rows that failed. For a total: all rows, and 0. */
  readonly rows: number
  readonly failing: number
  /** An example of what is wrong, or the total. */
  readonly found: string | null
  /** The total that `found` is compared with. */
  readonly expected: string | null
  /** First day of the window that `expected` comes from. */
  readonly expectedFrom: string | null
}

const formatShare = (share: number): string => `${Number((share * 100).toPrecision(6))}%`

const format = new Intl.NumberFormat('en', { maximumSignificantDigits: 7 })

/** Decimal text for people. */
export const shownNumber = (text: string | null): string => {
  const value = Number(text)
  return text === null || text === '' || !Number.isFinite(value) ? (text ?? 'no value') : format.format(value)
}

const between = ({ from, to }: Bounds): string =>
  from === null
    ? `at most ${shownNumber(to)}`
    : to === null
      ? `at least ${shownNumber(from)}`
      : `from ${shownNumber(from)} to ${shownNumber(to)}`

const totalOf = (column: string | null): string => (column === null ? 'the number of rows' : `the sum of ${column}`)

const besides = ({ allow }: RowTest): string => (allow === 0 ? '' : `, but for ${formatShare(allow)} of the rows`)

/** What is expected, as the end of "expected: ...". */
export const expectationOf = (test: DataTest): string => {
  switch (test.kind) {
    case 'range':
      return `${test.column} is ${between(test.bounds)}${besides(test)}`
    case 'accepted':
      return `${test.column} is one of ${test.values.join(', ')}${besides(test)}`
    case 'not_null':
      return `${test.column} has a value in ${test.allow === 0 ? 'every row' : `at least ${formatShare(1 - test.allow)} of the rows`}`
    case 'sum_of': {
      const apart = 'share' in test.within ? formatShare(test.within.share) : shownNumber(test.within.amount)
      return `${test.column} is ${test.of.join(' + ')}, within ${apart}${besides(test)}`
    }
    case 'ratio':
      return `${totalOf(test.column)} is ${between(test.bounds)} times that of the period before${least(test)}`
    case 'restated':
      return `${totalOf(test.column)} is within ${formatShare(test.share)} of what is loaded${least(test)}`
  }
}

const least = ({ atLeast }: TotalTest): string =>
  Number(atLeast) === 0 ? '' : `, where either is ${shownNumber(atLeast)} or more`

/** One sentence: the test by name, what it expects and what was found instead. */
export const findingWords = (finding: TestFinding): string =>
  `${finding.test.name}: expected that ${expectationOf(finding.test)}; ${foundWords(finding)}.`

const foundWords = ({ test, rows, failing, found, expected, expectedFrom }: TestFinding): string => {
  const some = `${format.format(failing)} of ${format.format(rows)} ${rows === 1 ? 'row' : 'rows'}`
  switch (test.kind) {
    case 'range':
      return `${some} ${failing === 1 ? 'is' : 'are'} outside, for example ${shownNumber(found)}`
    case 'accepted':
      return `${some} ${failing === 1 ? 'has' : 'have'} another value, for example '${found}'`
    case 'not_null':
      return `${some} ${failing === 1 ? 'has' : 'have'} none`
    case 'sum_of':
      return `${some} ${failing === 1 ? 'differs' : 'differ'}, by up to ${shownNumber(found)}`
    case 'ratio':
      return `it is ${shownNumber(found)}, and ${shownNumber(expected)} in the period from ${expectedFrom}`
    case 'restated':
      return `it is ${shownNumber(found)}, and ${shownNumber(expected)} is loaded${changeOf(found, expected)}`
  }
}

/** The change in percent, with its sign, in brackets; empty where the former total is 0 or unknown. */
export const changeOf = (found: string | null, expected: string | null): string => {
  const change = Number(found) / Number(expected) - 1
  return Number.isFinite(change) ? ` (${change > 0 ? '+' : ''}${(change * 100).toFixed(1)}%)` : ''
}
