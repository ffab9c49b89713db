// Rows that the world really sends: every kind of text and number that breaks a pipeline somewhere, as fast-check arbitraries.
import fc from 'fast-check'

const awkwardWords = [
  'null',
  'NULL',
  'NA',
  'N/A',
  'NaN',
  'none',
  '-',
  ' ',
  '007',
  '1e5',
  '+1',
  '\\N',
  '\\.',
  '\\',
  '"',
  '""',
  '","',
  "'; drop table x; --",
  '=cmd()',
  '{a,b}',
  '[1]',
  '\ufeffbom',
  'tab\there',
  'line\nfeed',
  'carriage\r\nreturn',
  'trailing ',
  '\u2028\u0001\u007f',
  '東京 ホテル',
  '🍕👩‍👩‍👧',
  'e\u0301 é',
  'ﷺ',
  '\u202egnp.exe',
  '9007199254740993',
  '2026-01-01',
  'true',
]

/** Well-formed Unicode without NUL, which PostgreSQL's text cannot hold; never empty. */
export const words: fc.Arbitrary<string> = fc
  .oneof(
    { weight: 2, arbitrary: fc.constantFrom(...awkwardWords) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 40 }) },
    { weight: 1, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }) },
  )
  .filter((text) => text.length > 0 && text.isWellFormed() && !text.includes('\0'))

/** A whole number's digits within eight bytes, with its edges. */
export const bigints: fc.Arbitrary<string> = fc
  .oneof(
    fc.constantFrom(0n, -1n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  )
  .map(String)

/** A decimal number as JSON and CSV write it, up to 80 digits, in the spelling PostgreSQL gives back. */
export const numerics: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom('0', '0.10', '9007199254740993', '0.30000000000000004', `${'9'.repeat(40)}.${'1'.repeat(40)}`, '-0.000001'),
  fc
    .tuple(fc.bigInt({ min: -(10n ** 39n), max: 10n ** 39n }), fc.stringMatching(/^\d{0,25}$/))
    .map(([whole, fraction]) => (fraction === '' ? String(whole) : `${whole}.${fraction}`)),
)

/** ISO days from year 1 to 9999. */
export const days: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom('0001-01-01', '1900-02-28', '2000-02-29', '9999-12-31'),
  fc
    .date({ min: new Date('0001-01-01T00:00:00Z'), max: new Date('9999-12-31T00:00:00Z'), noInvalidDate: true })
    .map((date) => date.toISOString().slice(0, 10)),
)

export const orNull = <T>(values: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(values, { freq: 4 })

/** Quoted where RFC 4180 asks for it; null is an empty cell. */
export const csvCell = (cell: string | null): string =>
  cell === null ? '' : /[",\r\n]|^\s|\s$|^$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
