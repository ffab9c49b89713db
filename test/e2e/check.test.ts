// `millrace check`: what it says is proved is, what was not asked is said with the reason, and one pass finds every mistake.

import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { type CommandResult, runCommand } from '../support/command.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { startStrictService } from '../support/strict-service.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const { folder, db, sandbox, millraceWith, edit } = sandboxWorld({ each: true })

const millrace = (args: readonly string[], others: Record<string, string> = {}): Promise<CommandResult> =>
  millraceWith(others, ...args)

const check = (others: Record<string, string> = {}): Promise<CommandResult> => millrace(['check', '--json'], others)
const said = ({ events }: CommandResult): string[] =>
  events
    .filter(({ event }) => event !== 'summary')
    .map((event) => `${String(event['result'] ?? event['level'])} (${String(event['area'])}): ${String(event['message'])}`)

test('proves key and paths without spending anything, and says what only a purchase would show', async () => {
  edit('keywords', ['{ file: domains.txt }', `{ query: "values ('a.com'), ('b.com')" }`])
  await succeeded(millrace(['migrate']))
  const result = await succeeded(check())
  const lines = said(result).join('\n')
  for (const line of [
    /proved \(service\).*keywords is there and accepts the key/,
    /proved \(service\).*request-status.* is there and accepts the batch key/,
    /proved \(table\): .*keywords\.yaml: its table has the columns, types and key/,
    /proved \(definition\): .*keywords\.yaml: the list of domain: its query gives 2 values/,
    /proved \(mart\): \d+ queries of marts run/,
    /not asked \(service\).*its submission: only a purchase/,
    /not asked \(data points\): web-analytics\.report\/traffic_and_engagement.*no report that gives a count/,
  ])
    expect(lines).toMatch(line)
  expect(sandbox.books().submissions).toEqual([])
  expect(result.stdout).not.toContain('All well')
  const told = await millrace(['check'])
  expect(told.stdout.trim()).toMatch(
    /^0 errors, 0 warnings; \d+ passed, \d+ not checked: `millrace check --all` lists them\. Asked: http:\/\/127\.0\.0\.1:\d+\.$/,
  )
  expect((await millrace(['check', '--all'])).stdout).toMatch(/^proved \(definition\)/m)
})

test('the launcher of a checkout sets nothing that the command would call unread', async () => {
  // As where the machine's own Node.js is too old and the checkout's is started.
  const launched = await runCommand(['check', '--json'], { MILLRACE_LAUNCHED: '1', DATABASE_URL: db.url }, folder)
  expect(launched.stdout).toContain('"area":"configuration"')
  expect(launched.stdout).not.toContain('MILLRACE_LAUNCHED')
})

test('every setting that a command would refuse is named, all in one pass', async () => {
  const wrong = {
    MILLRACE_GUARD: 'of',
    MILLRACE_DATABASE_SILENCE: '0',
    MILLRACE_LANDING_DAYS: 'x',
    MILLRACE_LEDGER_DAYS: '0',
    MILLRACE_WEB_PORT: '99999',
    MILLRACE_RELEASE_POLL: '-1',
    MILLRACE_FISCAL_YEAR_FROM: '13',
    MILLRACE_TAG_BUDGETS: 'x',
    MILLRACE_PING_URL: 'x',
    MILLRACE_LOG_LEVEL: 'loud',
    MILLRACE_HOOK_SECRET: 'x',
    MILLRACE_PUBLIC_URL: 'x',
    MILLRACE_READER_URL: 'mysql://x',
    MILLRACE_LANDING: 'ftp://x',
    DATABASE_URL: 'mysql://x',
    OPENLINEAGE_URL: 'x',
  }
  const result = await millrace(['check', '--json', '--offline'], wrong)
  const errors = said(result).filter((line) => line.startsWith('error (configuration)'))
  expect(Object.keys(wrong).filter((name) => !errors.some((line) => line.includes(name)))).toEqual([])
  expect([result.code, errors.length]).toEqual([2, Object.keys(wrong).length])
  // Also where several of its questions need it.
  const once = said(await check({ MILLRACE_LOG_LEVEL: 'loud' })).filter((line) => line.startsWith('error'))
  expect(once).toEqual([expect.stringContaining('MILLRACE_LOG_LEVEL')])
})

test('a service that is away is one error; what was not asked because of it is said to be so', async () => {
  const lines = said(await check({ WEB_ANALYTICS_BASE_URL: 'http://127.0.0.1:9' })).filter((line) => line.includes('(service)'))
  expect(lines.filter((line) => line.startsWith('error'))).toEqual([expect.stringContaining('ECONNREFUSED')])
  expect(lines.filter((line) => /^not asked .*: the service cannot be reached\.$/.test(line))).toHaveLength(4)
})

test('a key or path that is wrong is found also where the service has nothing but the interface', async () => {
  sandbox.configure({ extensions: false })
  const good = await check()
  expect(said(good).join('\n')).toMatch(
    /proved \(service\).*keywords is there and accepts the key[\s\S]*not asked \(service\).*has no \/v3\/batch\/credits/,
  )
  const refused = await check({ WEB_ANALYTICS_API_KEY: 'another-key-123' })
  expect(refused.code).toBe(2)
  expect(said(refused).filter((line) => line.startsWith('error (service)'))).toHaveLength(2)
  const astray = await check({ WEB_ANALYTICS_PATH_KEYWORDS: '/v9/keywords' })
  expect([astray.code, said(astray).join('\n')]).toEqual([
    2,
    expect.stringMatching(/error \(service\).*keywords is not there.*WEB_ANALYTICS_PATH_KEYWORDS/),
  ])
})

test('of a service that answers a month to come with its newest one no page is asked for', async () => {
  const served: string[] = []
  const service = await startStrictService({
    key: sandbox.apiKey,
    keywords: (domain) => [served.push(domain)].map(() => ({ keyword: 'k', top_url: 'u' })),
    report: () => '',
    intercept: ({ url }, response) => {
      const { pathname, searchParams } = new URL(url ?? '', 'http://x')
      const isKeywords = pathname === '/v4/website-analysis/keywords'
      if (pathname !== '/capabilities' && (!isKeywords || searchParams.has('URL'))) return false
      response.writeHead(isKeywords ? 400 : 404, { 'content-type': 'application/json' })
      response.end('{"meta":{"status":"Error","error_code":100,"error_message":"URL is required"}}')
      return true
    },
  })
  const lines = said(await check({ WEB_ANALYTICS_BASE_URL: service.url })).join('\n')
  await service.close()
  expect(lines).toMatch(/proved \(service\).*keywords is there and accepts the key/)
  expect(served).toEqual([])
})

test('finds every mistake of definitions and marts in one pass, with file and line', async () => {
  await succeeded(millrace(['migrate']))
  edit(
    'traffic_and_engagement',
    ['granularity: monthly', 'granularity: weekly, delivery_method: snowflake'],
    ['deadline: 6h', 'deadline: 6x'],
  )
  mkdirSync(join(folder, 'marts'))
  writeFileSync(join(folder, 'marts', 'broken.sql'), '-- purpose: p\n-- colum x: y\n-- question: q\nselect 1 as one\n')
  writeFileSync(
    join(folder, 'marts', 'wrong.sql'),
    '-- purpose: p\n-- grain: g\n-- question: q\n-- reads: keywords\n-- column other: none\nselect month,\n  clicks as klicks\nfrom bi.keywords\n',
  )
  writeFileSync(
    join(folder, 'marts', 'refused.sql'),
    '-- purpose: p\n-- grain: g\n-- question: q\n-- reads: keywords\nselect month,\n  no_such_column\nfrom bi.keywords\n',
  )
  writeFileSync(
    join(folder, 'marts', 'grain.sql'),
    '-- purpose: p\n-- grain: One row per month and domain.\n-- question: q\n-- reads: keywords\nselect month as first_day, domain, country from bi.keywords\n',
  )
  writeFileSync(
    join(folder, 'marts', 'short_key.sql'),
    '-- purpose: p\n-- grain: One row per month and domain.\n-- question: q\n-- kind: summary of keywords\n-- key: month, domain\n-- column clicks: c\nselect month, domain, sum(clicks) as clicks from {{facts}} group by month, domain\n',
  )
  const summary = readFileSync(join(import.meta.dirname, '..', '..', 'marts', 'keyword_months.sql'), 'utf8')
  writeFileSync(join(folder, 'marts', 'keyword_months.sql'), `${summary.trimEnd()}\nhaving true\n`)
  edit('shopper_category_performance', ['{ file: shop_domains.txt }', '{ query: select domain from no_such_table }'])
  const result = await check()
  expect(result.code).toBe(2)
  const lines = said(result).join('\n')
  for (const line of [
    /traffic_and_engagement\.yaml:\d+:\d+: .*delivery_method is 'snowflake'.*download_link.*never comes here/,
    /traffic_and_engagement\.yaml:\d+:\d+: .*deadline is '6x'/,
    /broken\.sql:2:1: .*not a header line/,
    /broken\.sql:1:1: the header lacks '-- grain/,
    /wrong\.sql:5:1: the header describes 'other', which the query does not return/,
    /warning \(mart\): .*wrong\.sql:1:1: the query gives 'klicks', which nothing explains/,
    /error \(mart\): .*grain\.sql:2:1: the grain names 'month', which the query does not return; write other words after a colon\. It returns first_day, domain, country\. Correct the header or the query\./,
    /warning \(mart\): .*grain\.sql:1:1: the query gives 'country', which its header does not name: documents and BI tools lack it; name it in the grain, or add '-- column country: …'/,
    /error \(definition\): .*shopper_category_performance\.yaml: the list of domain: its query failed: .*no_such_table/,
    /error \(mart\): bi\.keyword_months was made from another query than .*keyword_months\.sql has\. Run `millrace migrate`/,
    /refused\.sql:6:1: PostgreSQL refuses the query: .*no_such_column/,
    /error \(mart\): .*short_key\.sql:5:1: the key lacks country, traffic_source, web_source, branded_type/,
  ])
    expect(lines).toMatch(line)
})

test('a budget of a tag that no definition has is warned of; one that cannot be read is named once', async () => {
  const warned = await check({ MILLRACE_TAG_BUDGETS: 'client=acme:400/day,client=acme:5000/month' })
  expect([warned.code, said(warned).filter((line) => line.includes('client=acme'))]).toEqual([
    0,
    [expect.stringMatching(/^warning \(configuration\): a budget is set for the tag client=acme, which no definition has/)],
  ])
  const wrong = await check({ MILLRACE_TAG_BUDGETS: 'client' })
  expect([wrong.code, said(wrong).filter((line) => line.includes('MILLRACE_TAG_BUDGETS')).length]).toEqual([2, 1])
})

test('a month that was detached and kept, which loads refuse, is named', async () => {
  await succeeded(millrace(['migrate']))
  const { pool } = db.database
  await pool.query('create table data.keywords_v1_p202605 (like data.keywords_v1)')
  try {
    const found = said(await check({})).filter((line) => line.includes('p202605'))
    expect(found).toEqual([
      expect.stringMatching(/^warning \(table\): data\.keywords_v1_p202605 is no partition of data\.keywords_v1: attach/),
    ])
  } finally {
    await pool.query('drop table data.keywords_v1_p202605')
  }
})

test('eleven things that are broken at once, each of another kind, are all named, each once, and nothing is waited for', async () => {
  await succeeded(millrace(['migrate']))
  await db.database.pool.query('alter table data.keywords_v1 rename column clicks to klicks')
  const write = (place: string, text: string): void => {
    mkdirSync(join(folder, dirname(place)), { recursive: true })
    writeFileSync(join(folder, place), text)
  }
  const traffic = 'pipelines/traffic_and_engagement.yaml'
  write(traffic, readFileSync(join(folder, traffic), 'utf8').replace('deadline: 6h', 'deadline: 6x'))
  rmSync(join(folder, 'pipelines', 'shop_domains.txt'))
  // Nobody writes into it: whoever opened it would wait for ever.
  execFileSync('mkfifo', [join(folder, 'pipelines', 'shop_domains.txt')])
  write(
    'marts/refused.sql',
    '-- purpose: p\n-- grain: g\n-- question: q\n-- reads: keywords\nselect no_such_column from bi.keywords\n',
  )
  write('semantic/odd.yaml', 'metrics: 3\n')
  write('dashboards/odd.yaml', 'dashboard: 3\n')
  write('notify.yaml', 'receivers: 3\n')
  const result = await check({
    WEB_ANALYTICS_API_KEY: 'another-key-123',
    MILLRACE_GUARD: 'of',
    MILLRACE_GAURD: 'on',
    MILLRACE_HOME: '/proc/x',
  })
  expect(result.code).toBe(2)
  const wrong = said(result).filter((line) => /^(error|warning)/.test(line))
  for (const one of [
    /error \(table\): data\.keywords_v1\.clicks is in the definition but not in the table/,
    /error \(definition\): .*shop_domains\.txt cannot be read \(it is no regular file\)/,
    /error \(definition\): .*traffic_and_engagement\.yaml:\d+:\d+: limits\.deadline is '6x'/,
    /error \(mart\): .*refused\.sql:5:1: PostgreSQL refuses the query: .*no_such_column/,
    /error \(semantic\): .*semantic\/odd\.yaml:1:10: metrics is '3'/,
    /error \(semantic\): .*dashboards\/odd\.yaml:1:\d+: dashboard is '3'/,
    /error \(alarms\): notify\.yaml:1:\d+: receivers/,
    /error \(configuration\): MILLRACE_GUARD is 'of'/,
    /warning \(configuration\): MILLRACE_GAURD is set, and nothing reads it/,
    /error \(landing\): \/proc\/x\/landing/,
    /error \(service\): .*\/capabilities answers 401.*WEB_ANALYTICS_API_KEY/,
  ])
    expect(
      wrong.filter((line) => one.test(line)),
      `${one} of\n${wrong.join('\n')}`,
    ).toHaveLength(1)
})

test('a formula, or a condition of a metric, that PostgreSQL refuses is named with its line', async () => {
  await succeeded(millrace(['migrate']))
  mkdirSync(join(folder, 'semantic'))
  writeFileSync(
    join(folder, 'semantic', 'own.yaml'),
    `subject: keywords
metrics:
  odd_clicks: { about: Odd clicks., sum: clickz, unit: clicks }
  known_clicks: { about: Known clicks., sum: clicks, known: is_knwon, unit: clicks }
`,
  )
  const wrong = said(await check()).filter((line) => /^error/.test(line))
  expect(wrong).toEqual([
    expect.stringMatching(/own\.yaml:3:3: odd_clicks: .*"clickz" does not exist.* Correct its formula\./),
    expect.stringMatching(/own\.yaml:4:3: known_clicks: .*"is_knwon" does not exist.* Correct its formula\./),
  ])
})

test('a definition that does not fit its migration is found before that is applied', async () => {
  const empty = await createTestDatabase({ empty: true })
  try {
    edit('keywords', ['cpc: { type: numeric', 'cpc: { type: bigint'])
    const result = await check({ DATABASE_URL: empty.url })
    const lines = said(result).join('\n')
    expect(lines).toMatch(/error \(table\): data\.keywords_v1\.cpc is numeric, the definition says bigint/)
    expect(lines).toMatch(/proved \(table\): .*traffic_and_engagement\.yaml: its migration makes the columns, types and key/)
    const { rows } = await empty.database.pool.query(`select 1 from pg_namespace where nspname in ('etl', 'data', 'bi')`)
    expect(rows).toEqual([])
  } finally {
    await empty.drop()
  }
})

test('a price for what no definition asks for is named: it would not be used', async () => {
  const lines = async (prices: string): Promise<string> =>
    said(await millrace(['check', '--offline', '--json'], { WEB_ANALYTICS_PRICES: prices })).join('\n')
  expect(await lines('shoper-report=2/request,keywords=0.1/row asked')).toMatch(
    /warning \(configuration\): a price is set for 'shoper-report' of account default, which no definition asks for: it is not used\. .* keywords, shopper-report, traffic_and_engagement\.$/m,
  )
  expect(await lines('keywords=0.1/row asked,shopper-report=2/request,traffic_and_engagement=2/value')).not.toContain(
    'a price is set',
  )
})

test('files that nobody reads are named, and of a view that waits for migrate nobody says that its pipeline is not defined', async () => {
  for (const file of ['pipelines/team a/more.yaml', 'pipelines/OTHER.YAML', 'marts/staging/clicks.sql']) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), '')
  }
  const lines = said(await millrace(['check', '--json', '--offline']))
  expect(lines.filter((line) => line.startsWith('warning'))).toEqual([
    expect.stringMatching(/^warning \(definition\): .*pipelines\/OTHER\.YAML is not read: .* small letters/),
    expect.stringMatching(/^warning \(definition\): .*pipelines\/team a\/more\.yaml is not read: move it into .*pipelines,/),
    expect.stringMatching(/^warning \(mart\): .*marts\/staging\/clicks\.sql is not read/),
  ])
  expect(lines.find((line) => line.includes('(semantic): keywords: '))).toMatch(/does not exist: `millrace migrate` creates it/)
})

test('a mart saved on Windows is read like any other; letters of another encoding are named with their line', async () => {
  const mart = '-- purpose: p\n-- grain: One row per month.\n-- question: q\n-- reads: keywords\nselect month from bi.keywords\n'
  mkdirSync(join(folder, 'marts'), { recursive: true })
  writeFileSync(join(folder, 'marts', 'windows.sql'), `\uFEFF${mart.replaceAll('\n', '\r\n')}`)
  writeFileSync(join(folder, 'marts', 'latin.sql'), Buffer.from(mart.replace('question: q', 'question: Möbel?'), 'latin1'))
  const lines = said(await millrace(['check', '--json', '--offline'])).filter((line) => line.startsWith('error (mart)'))
  expect(lines).toEqual([expect.stringMatching(/latin\.sql:3:1: not UTF-8; save it as UTF-8/)])
})

test('where one pipeline is defined and migrated, nothing is said to need `millrace migrate`', async () => {
  for (const name of ['keywords', 'shopper_category_performance']) rmSync(join(folder, 'pipelines', `${name}.yaml`))
  await succeeded(millrace(['migrate']))
  const { stdout } = await succeeded(millrace(['check', '--offline']))
  expect(stdout).toMatch(/0 errors/)
  expect(stdout).not.toMatch(/millrace migrate/)
})

test('a mistake in a definition is named alone: marts that ship, whose columns it explained, are no mistake of a person', async () => {
  await succeeded(millrace(['migrate']))
  edit('keywords', ['look_back: 2', 'lok_back: 2'])
  const lines = said(await millrace(['check', '--json', '--offline']))
  expect(lines.filter((line) => /^(error|warning)/.test(line))).toEqual([expect.stringContaining("'lok_back' is not known")])
})

test('of a budget or a price whose definition cannot be read it is not said that no definition has it', async () => {
  edit('keywords', [/^source:/m, 'tags: { client: acme }\nsuorce: x\nsource:'])
  const settings = { MILLRACE_TAG_BUDGETS: 'client=acme:400/day', WEB_ANALYTICS_PRICES: 'keywords=0.1/row asked' }
  const result = await millrace(['check', '--offline', '--json'], settings)
  expect([result.code, said(result).filter((line) => line.includes('which no definition'))]).toEqual([2, []])
})

test('a wrong setting is named with its line in .env and what is allowed; the environment has no lines', async () => {
  const said = async (lines: string, environment: Readonly<Record<string, string>> = {}): Promise<string> => {
    writeFileSync(join(folder, '.env'), lines)
    const { stdout, stderr } = await millrace(['check', '--offline'], environment)
    return stdout + stderr
  }
  const wrong = '# Prices\n\nWEB_ANALYTICS_PRICES="keywords=-1/row"\n'
  expect(await said(wrong)).toMatch(/\.env:3: WEB_ANALYTICS_PRICES holds 'keywords=-1\/row', .*a number from 0/)
  expect(await said(`export ${wrong.trimStart().slice(10)}`)).toMatch(/\.env:1: WEB_ANALYTICS_PRICES/)
  const own = [
    'MILLRACE_GUARD=of',
    'MILLRACE_LOG_LEVEL=loud',
    'MILLRACE_TAG_BUDGETS=x',
    'MILLRACE_PING_URL=x',
    'MILLRACE_WEB_TOKEN=x',
  ]
  const told = await said(own.join('\n'))
  for (const [at, line] of own.entries()) expect(told).toContain(`.env:${at + 1}: ${line.split('=')[0]} `)
  expect(await said('', { WEB_ANALYTICS_PRICES: 'keywords=1/row,keywords=2/row' })).toMatch(
    /^(?!.*\.env:).*: WEB_ANALYTICS_PRICES names keywords twice/m,
  )
})

test('sees units of another size of window, and answers of the ledger that are gone from the landings, and says how to get them back; `notify list` without a receiver does not say that all is well', async () => {
  for (const list of ['domains', 'countries'])
    writeFileSync(join(folder, 'pipelines', `${list}.txt`), list === 'domains' ? 'a.com\n' : 'us\n')
  await succeeded(millrace(['migrate']))
  await succeeded(millrace(['backfill', 'keywords', '--from', '2026-08', '--to', '2026-08', '--yes']))
  expect(said(await check()).join('\n')).toMatch(/proved \(landing\): \d+ answers? of the ledger (is|are) there/)
  // As if the units had been made by a definition that loads weeks.
  const made = (every: string) => db.database.pool.query(`update etl.pipelines set window_every = $1`, [every])
  await made('week')
  const ofWeeks = /error \(definition\): .*keywords\.yaml: keywords loads a month at a time, but its units/
  expect(said(await check()).join('\n')).toMatch(ofWeeks)
  // Beside a migration that is to be applied, too: both are found in one go.
  mkdirSync(join(folder, 'migrations'), { recursive: true })
  const pending = join(folder, 'migrations', '0900_nothing.ts')
  writeFileSync(pending, 'export const up = async () => undefined\n')
  expect(said(await check()).join('\n')).toMatch(ofWeeks)
  rmSync(pending)
  await made('month')
  const landing = join(folder, 'home', 'landing')
  const files = readdirSync(join(landing, 'keywords_v1'), { recursive: true, encoding: 'utf8' })
  // The bytes alone, then all of it.
  for (const gone of [files.filter((name) => name.endsWith('data.gz')), ['.']]) {
    for (const name of gone) rmSync(join(landing, 'keywords_v1', name), { recursive: true })
    expect(said(await check()).join('\n')).toMatch(
      /warning \(landing\): \d+ of \d+ checked answers are missing in .*: their rows stay.*Restore .* from its backup.*backfill .* --force/,
    )
    const replayed = await millrace(['replay', 'keywords', '--from', '2026-08', '--to', '2026-08'])
    expect([replayed.code, replayed.stderr]).toEqual([
      1,
      expect.stringMatching(/Skipped: \d+ answers? that (is|are) no longer in/),
    ])
  }
  const listed = await millrace(['notify', 'list'])
  expect(listed.stdout).toMatch(/No receiver is set: no alarm is checked or sent.*millrace status/s)
  expect(listed.stdout).not.toContain('Nothing is wrong')
})

test('a folder below that the login may not enter, such as lost+found of a volume, keeps nothing else from being read', () => {
  const closed = join(folder, 'volume', 'lost+found')
  mkdirSync(closed, { recursive: true })
  writeFileSync(join(folder, 'volume', 'OTHER.YAML'), '')
  chmodSync(closed, 0)
  // Root may enter everything.
  const login = process.getuid?.() === 0 ? { uid: 65_534 } : {}
  const script = `import { unreadFiles } from '${join(import.meta.dirname, '..', '..', 'src', 'definition', 'folder-files.ts')}'
    console.log(await unreadFiles('${join(folder, 'volume')}', /yaml$/))`
  const found = execFileSync(process.execPath, ['--input-type=module', '-e', script], { ...login, encoding: 'utf8' })
  expect(found).toBe("[ 'OTHER.YAML' ]\n")
})
