import { expect, test } from 'vitest'
import { change, contractExample, problemsIn, reportExample } from './checking.ts'

type Case = readonly [what: string, from: string, to: string, problem: string]

const keywordCases: readonly Case[] = [
  ['an unknown key', 'window: {', 'windows: {', "10:1: 'windows' is not known at the top level. Did you mean 'window'?"],
  ['a missing part', 'version: 1\n', '', '2:1: version is missing; expected a whole number from 1.'],
  [
    'an unknown key deep inside',
    'page_size:',
    'pagesize:',
    "19:11: 'pagesize' is not known under limits. Did you mean 'page_size'?",
  ],
  [
    'an unknown key of a dimension',
    '{ file:',
    '{ flie:',
    "8:13: 'flie' is not known under for_each.domain. Did you mean 'file'?",
  ],
  [
    'a text for a list',
    '[us, gb]',
    'us',
    "9:12: for_each.country is 'us'; expected a list of values, { file: list.txt }, { values: [...] } or",
  ],
  [
    'an unknown type',
    'type: bigint',
    'type: bigin',
    "16:21: table.columns.clicks.type is 'bigin'; expected one of text, bigint, integer, numeric, boolean, date, timestamptz, text[]. Did you mean 'bigint'?",
  ],
  [
    'an unknown param',
    'web_source: Total',
    'web_sourc: Total',
    "6:32: 'web_sourc' is not known under params. Did you mean 'web_source'?",
  ],
  [
    'an unknown spelling',
    'clicks: { type: bigint,',
    'clicks: { type: bigint, normalize: land,',
    "16:40: web-analytics.keywords does not know the spelling 'land'; write one of period_start, country, domain.",
  ],
  [
    'a wrong param',
    'web_source: Total',
    'web_source: total',
    "6:44: params.web_source is 'total'; expected one of Desktop, MobileWeb, Total. Did you mean 'Total'?",
  ],
  [
    'an unknown source',
    'web-analytics.keywords',
    'web-analytics.keyword',
    "5:9: there is no source 'web-analytics.keyword'. Did you mean 'web-analytics.keywords'?",
  ],
  [
    'an unknown dimension',
    '  country:',
    '  county:',
    "9:3: web-analytics.keywords cannot run for each 'county'. Did you mean 'country'?",
  ],
  [
    'a missing dimension',
    '  country: [us, gb]\n',
    '',
    "7:1: for_each lacks 'country' (Country), which web-analytics.keywords needs",
  ],
  [
    'a bucket the source does not take',
    '{ file: domains.txt }',
    '{ file: domains.txt, bucket: 5 }',
    '8:32: for_each.domain.bucket is 5; web-analytics.keywords takes one domain per request. Remove bucket.',
  ],
  [
    'a missing list file',
    'domains.txt',
    'domain.txt',
    '8:19: for_each.domain.file: the list file pipelines/domain.txt does not exist; create it',
  ],
  ['an empty list', '[us, gb]', '[]', '9:12: for_each.country is an empty list; add a value'],
  [
    'a wrong value',
    '[us, gb]',
    '[us, germany]',
    "9:17: for_each.country: 'germany' is not a country; write a two-letter ISO code such as us, or world.",
  ],
  [
    'another spelling of the world',
    '[us, gb]',
    '[WW]',
    "9:13: for_each.country: 'ww' is not a country here; write 'world' for worldwide.",
  ],
  ['a value twice', '[us, gb]', '[us, gb, US]', "9:21: for_each.country: 'us' already appears in line 9; keep one of the two."],
  ['a bare map as a value', '[us, gb]', '[{ a: 1 }]', '9:13: for_each.country.0 is a map; expected a plain value.'],
  [
    'a key column from nowhere',
    'keyword, top_url]',
    'keyword, topurl]',
    "13:84: key column 'topurl' has no origin: it is none of the window, for_each, params, columns or a field the source knows. Did you mean 'top_url'?",
  ],
  ['a key without the slices', 'domain, country,', 'domain,', "13:8: the key lacks 'country', which for_each runs for"],
  ['a key without a period', '[month, ', '[', "13:8: the key has no period; it needs 'month' or 'date'"],
  ['a key column twice', 'keyword, top_url]', 'keyword, keyword, top_url]', "13:84: 'keyword' appears twice in the key"],
  [
    'a nullable key',
    'keyword: { type: text,',
    'keyword: { nullable: true, type: text,',
    "15:26: key column 'keyword' cannot be nullable",
  ],
  [
    'a key the source says may be null',
    'keyword, top_url]',
    'keyword, top_url, secondary_intent]',
    "13:93: key column 'secondary_intent' may be null in the response",
  ],
  ['a key that is a list', 'keyword, top_url]', 'keyword, top_url, serp_features]', "key column 'serp_features' is a list"],
  [
    'a key with a default',
    'keyword: { type: text,',
    'keyword: { if_absent: x, type: text,',
    "15:16: key column 'keyword' cannot have a default",
  ],
  [
    'a column the response lacks',
    'clicks: {',
    'clickz: {',
    "16:5: the response of web-analytics.keywords has no field 'clickz'. Did you mean 'clicks'?",
  ],
  [
    'rounding that there is none of',
    'clicks: { type: bigint,',
    'clicks: { type: bigint, rounding: half_down,',
    "16:39: table.columns.clicks.rounding is 'half_down'; expected one of half_up, half_even, down.",
  ],
  [
    'rounding of what may have fractions',
    'traffic_share: { type: numeric,',
    'traffic_share: { type: numeric, rounding: half_up,',
    "17:37: 'traffic_share' is numeric; rounding is for bigint and integer. Remove rounding, or change the type.",
  ],
  [
    'rounding of a key',
    'keyword: { type: text,',
    'keyword: { type: bigint, rounding: half_up,',
    "15:30: key column 'keyword' cannot be rounded: two rows would become one. Remove rounding.",
  ],
  [
    'rounding of what does not come from the response',
    'columns:\n',
    'columns:\n    web_source: { type: bigint, rounding: down }\n',
    "key column 'web_source' cannot be rounded",
  ],
  ['a default of another type', 'if_absent: 0', 'if_absent: none', "16:40: if_absent 'none' is not a bigint"],
  [
    'a column with the reserved prefix',
    'clicks: {',
    '_clicks: {',
    "16:5: table.columns._clicks is '_clicks'; expected a name of lower-case letters, digits and _ that begins with a letter.",
  ],
  [
    'a column name of the warehouse',
    'clicks: {',
    'valid_to: { from: clicks,',
    "16:5: 'valid_to' is a name the warehouse uses itself",
  ],
  [
    'a capital in a name',
    'pipeline: keywords',
    'pipeline: Keywords',
    "2:11: pipeline is 'Keywords'; expected a name of lower-case letters, digits and _ that begins with a letter.",
  ],
  [
    'a name PostgreSQL would cut',
    'pipeline: keywords',
    `pipeline: ${'k'.repeat(45)}`,
    `2:11: '${'k'.repeat(45)}' has 45 characters; at most 44 leave room for _v1_history_p202601`,
  ],
  [
    'a name that collides with a view',
    'pipeline: keywords',
    'pipeline: keywords_history',
    "2:11: 'keywords_history' would collide with views Millrace makes in bi ('_history')",
  ],
  ['a cron of four fields', '"30 2 * * *"', '"30 2 * *"', "11:19: schedule.cron: '30 2 * *' has 4 field(s), expected 5"],
  ['a cron out of range', '"30 2 * * *"', '"30 25 * * *"', "11:19: schedule.cron: '25' is not an hour (0 to 23"],
  [
    'a cron for a day that never comes',
    '"30 2 * * *"',
    '"30 2 31 2,4 *"',
    "11:19: schedule.cron: day 31 never comes in the month(s) '2,4'",
  ],
  [
    'an unknown time zone',
    'Europe/Berlin',
    'Europe/Berln',
    "11:44: schedule.time_zone is 'Europe/Berln'; expected an IANA time zone such as Europe/Berlin. Did you mean 'Europe/Berlin'?",
  ],
  ['an offset for a time zone', 'Europe/Berlin', '"+02:00"', "11:44: schedule.time_zone is '+02:00'; expected an IANA time zone"],
  [
    'a bad duration',
    'timeout: 30s',
    'timeout: 30',
    "19:53: limits.timeout is '30'; expected a time such as 500ms, 30s, 5m or 6h.",
  ],
  ['no time at all', 'timeout: 30s', 'timeout: 0s', "19:53: limits.timeout is '0s'; expected more than 0."],
  [
    'waits that contradict',
    'timeout: 30s',
    'poll_every: 2m, poll_max: 1m',
    "19:70: limits.poll_max is '1m'; expected at least poll_every, since it is the longest wait.",
  ],
  [
    'a bound of the guard',
    'limits:',
    'guard: { factor: 0.5 }\nlimits:',
    "19:18: guard.factor is '0.5'; expected a number from 1 on.",
  ],
  ['one bad wait, and no word about the other', 'timeout: 30s', 'poll_every: 2x, poll_max: 1m', 'limits.poll_'],
  [
    'a bad share',
    'rejects: 0.1%',
    'rejects: 0.1',
    "19:80: limits.rejects is '0.1'; expected a share such as 0.1%, a count such as 10, or both",
  ],
  ['a share over everything', 'shrink: 50%', 'shrink: 150%', "19:94: limits.shrink is '150%'; expected a share such as 50%."],
  [
    'a day that does not exist',
    'from: 2024-01',
    'from: 2024-02-30',
    "10:31: window.from is '2024-02-30', a day that does not exist",
  ],
  [
    'a start within a window',
    'from: 2024-01',
    'from: 2024-01-15',
    "10:31: window.from is '2024-01-15', in the middle of a month; write 2024-01.",
  ],
  [
    'a window the source cannot be asked for',
    'every: month',
    'every: day',
    '10:18: web-analytics.keywords has no data by day; write every: month.',
  ],
  [
    'a report policy where nothing is bought',
    'limits:',
    'report: { resubmit_failed: true }\nlimits:',
    '19:1: web-analytics.keywords buys no reports; remove report.',
  ],
  [
    'an anchor',
    '[us, gb]',
    '&list [us, gb]',
    "9:18: '&list' is a YAML anchor; definitions have none of these, write the value out.",
  ],
  ['a tag', 'version: 1', 'version: !!int "1"', 'is a YAML tag; definitions have none of these'],
  ['a merge key', 'limits: {', 'limits: { <<: { walks: 1 },', "19:11: '<<' is a YAML merge key"],
  ['a key twice', 'version: 1', 'version: 1\nversion: 1', '4:1: this key appears twice in the same map; keep one of the two.'],
  ['broken YAML', '[us, gb]', '[us, gb', 'not valid YAML'],
  ['a second document', '# a report', '---\n# a report', '20:1: a second document begins here; write one pipeline per file.'],
  [
    'a schedule at the wrong level',
    'schedule: {',
    'schedule: daily #',
    "11:11: schedule is 'daily'; expected a map such as { cron:",
  ],
]

const longName = 'c'.repeat(64)
const moreCases: readonly Case[] = [
  [
    'a period that is no date',
    'columns:\n',
    'columns:\n    month: { type: text }\n',
    "15:20: 'month' is the first day of a period; its type is date.",
  ],
  [
    'a column name PostgreSQL would cut',
    'clicks: {',
    `${longName}: { from: clicks,`,
    `16:5: '${longName}' has 64 characters; PostgreSQL allows 63.`,
  ],
  [
    'a tag that is no plain word',
    'schedule:',
    'tags: { client: "acme & sons" }\nschedule:',
    "11:17: tags.client is 'acme & sons'; expected a value of letters, digits and . _ -",
  ],
  [
    'data that are due before they are published',
    'schedule:',
    'expect: { month_by: 9 }\nschedule:',
    '11:21: expect.month_by is 9, before the service publishes a month (day 10,',
  ],
  [
    'a list from a query that may lose everything',
    '{ file: domains.txt }',
    '{ query: "select 1", shrink: lots }',
    "8:40: for_each.domain.shrink is 'lots'; expected a share such as 50%",
  ],
  [
    'a default for what is never absent',
    'columns:\n',
    'columns:\n    domain: { if_absent: x }\n',
    "key column 'domain' cannot have a default",
  ],
]

test.each([...keywordCases, ...moreCases])('%s is named at its place, with the fix', (_, from, to, problem) => {
  const problems = problemsIn(change(contractExample, from, to))
  expect(
    problems.filter((one) => one.includes(problem)),
    problems.join('\n'),
  ).toHaveLength(1)
})

const reportCases: readonly Case[] = [
  [
    'a bucket above what the source takes',
    'bucket: 100',
    'bucket: 101',
    '7:45: for_each.domain.bucket is 101; web-analytics.report takes at most 100 values of domain per report. Write 100 or less, or remove bucket.',
  ],
  ['a missing param', 'params: { vtable: traffic_and_engagement }\n', '', 'params.vtable is missing; expected a string.'],
  [
    'a metric without a type',
    'type: numeric, ',
    '',
    "13:13: column 'visits' has no type, and web-analytics.report does not know the field",
  ],
  [
    'a boolean that is a text',
    'vtable: traffic_and_engagement',
    'vtable: t, include_subdomains: "yes"',
    "5:42: params.include_subdomains is 'yes'; expected a boolean.",
  ],
]

test.each(reportCases)('in a report %s is named at its place, with the fix', (_, from, to, problem) => {
  const problems = problemsIn(change(reportExample, from, to))
  expect(
    problems.filter((one) => one.includes(problem)),
    problems.join('\n'),
  ).toHaveLength(1)
})

test('month cannot be the period of weekly windows', () => {
  const weekly = change(change(reportExample, 'from: 2024-01', 'every: week, from: 2024-01-01'), '[date,', '[month,')
  expect(problemsIn(weekly)).toEqual([expect.stringContaining("'month' cannot be the period of windows of a week; use 'date'.")])
})

test.each(['constructor', 'to_string', 'has_own_property', 'value_of'])(
  'a key column called %s is not found on any object',
  (name) => {
    const problems = problemsIn(change(contractExample, 'keyword, top_url]', `keyword, top_url, ${name}]`))
    expect(problems).toEqual([expect.stringContaining(`key column '${name}' has no origin`)])
  },
)

test('every problem of a file is found in one go', () => {
  const text = change(
    change(change(contractExample, 'timeout: 30s', 'timeout: soon'), 'version: 1', 'version: 0'),
    'type: bigint',
    'type: big',
  )
  expect(problemsIn(text)).toHaveLength(3)
  const deeper = change(
    change(change(contractExample, 'domains.txt', 'none.txt'), '30 2 * * *', '30 99 * * *'),
    'top_url]',
    'topurl]',
  )
  expect(problemsIn(change(deeper, 'web_source: Total', 'web_source: Tablet'))).toHaveLength(3)
  expect(problemsIn(deeper)).toHaveLength(3)
})

test.each([
  [
    'https://www.Example.com/shop',
    1,
    "'https://www.example.com/…' is not a bare domain (no scheme, no www., no path); write 'example.com'.",
  ],
  ['  www.example.com', 3, "'www.example.com' is not a bare domain (no scheme, no www., no path); write 'example.com'."],
  ['münchen.de', 1, "'münchen.de' is not a bare domain (no scheme, no www., no path); write 'xn--mnchen-3ya.de'."],
  ['not a domain', 1, "'not a domain' is not a bare domain (no scheme, no www., no path); write a domain such as example.com."],
  [
    'c.com\td.com',
    1,
    "'c.com\td.com' is not a bare domain (no scheme, no www., no path); write a domain such as example.com. One value a line.",
  ],
  [
    'c.com;shop',
    1,
    "'c.com;shop' is not a bare domain (no scheme, no www., no path); write a domain such as example.com. One value a line.",
  ],
  ['"c.com"', 1, `'"c.com"' is in quotes; write it without them.`],
  ['m\uFFFDller.de', 2, 'not UTF-8; save it as UTF-8, or some letters would be lost.'],
  ['B.com', 1, "'b.com' already appears in line 1; keep one of the two."],
])('the list file line %j is named with its own file and line', (line, column, message) => {
  expect(problemsIn(contractExample, { lists: { 'domains.txt': `b.com\n# a comment\n${line}\n` } })).toEqual([
    `pipelines/domains.txt:3:${column}: ${message}`,
  ])
})

test('a list file without values is a problem of the line that names it', () => {
  expect(problemsIn(contractExample, { lists: { 'domains.txt': '# nothing yet\n\n' } })).toEqual([
    'pipelines/p.yaml:8:19: for_each.domain.file: the list file pipelines/domains.txt holds no value; add one per line.',
  ])
})

test.each([
  ['', 'the file is empty'],
  ['# only words\n', 'the file is empty'],
  ['keywords', "the file is 'keywords'; expected a map"],
])('a file that holds %j says what a definition is', (text, problem) => {
  expect(problemsIn(text)).toEqual([expect.stringContaining(`pipelines/p.yaml:1:1: ${problem}`)])
})

test('a file whose lines end with CR alone is read: a comment ends with its line', () => {
  expect(problemsIn(`# words\r${contractExample.replaceAll('\n', '\r')}`)).toEqual([])
})

test('text that is no UTF-8 is refused at its place: its letters would be asked for, and paid, wrong', () => {
  const refused = 'not UTF-8; save it as UTF-8, or some letters would be lost.'
  expect(problemsIn(change(contractExample, 'us, gb', 'u\uFFFD'))).toEqual([`pipelines/p.yaml:9:14: ${refused}`])
  const [problem, ...more] = problemsIn(Buffer.from(`\uFEFF${contractExample}`, 'utf16le').toString('utf8'))
  expect([problem, more]).toEqual([`pipelines/p.yaml:1:1: ${refused}`, []])
})

test('a tab is named alone: what YAML makes of the lines below it is none of their mistake', () => {
  expect(problemsIn(change(contractExample, '  domain:', '\tdomain:'))).toEqual([
    'pipelines/p.yaml:8:1: a tab is used to indent; YAML wants spaces.',
  ])
})

test('an alias is refused before it is followed', () => {
  const bomb = 'a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n'
  expect(problemsIn(bomb).every((problem) => /YAML (alias|anchor)/.test(problem))).toBe(true)
})
