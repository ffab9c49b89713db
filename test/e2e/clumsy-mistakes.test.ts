// Clumsy mistakes at the terminal: names run together, files that are none, folders without a warehouse, full disks. Each ends with what to do next.
import { execFileSync, spawn } from 'node:child_process'
import {
  closeSync,
  cpSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { cleanEnvironment, launcher, pipelinesOfRepository } from '../support/command.ts'
import { mayMount, mountSmallDisk } from '../support/small-disk.ts'
import { testWorld } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

// Nothing answers: each of these is told before anything is asked.
const { folder, db, environment, millrace, start } = testWorld({ database: { published: true } })

test.each(['keyword,traffic_and_engagement', 'keywords,trafic_and_engagement'])(
  'names with a comma between them are written as the command takes them: %s',
  async (names) => {
    const { code, stderr } = await millrace('run', names)
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining(
        `There is no pipeline '${names}'. Write names with a space between them: keywords traffic_and_engagement.`,
      ),
    ])
  },
)

test('a new dataset whose name is taken is refused before the service is asked, and its file is named', async () => {
  const { code, stderr } = await millrace('new', 'dataset', 'keywords')
  expect([code, stderr]).toEqual([2, expect.stringMatching(/keywords\.yaml exists already, nothing was written/)])
})

test.each(['-', '.', 'pipe'])('an export into what is no file says how to name one: --out %s', async (out) => {
  if (out === 'pipe') execFileSync('mkfifo', [join(folder, out)])
  const { code, stderr } = await millrace('export', 'keyword_months', '--out', out)
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining(`--out ${out} is no file; name one, for example --out keyword_months.csv.`),
  ])
  expect(readdirSync(folder).filter((name) => /^-|\.partial$/.test(name))).toEqual([])
  if (out === 'pipe') expect(statSync(join(folder, out)).isFIFO()).toBe(true)
})

test('an export into a format it does not write is refused, before a file of another kind bears its name', async () => {
  const { code, stderr } = await millrace('export', 'keyword_months', '--out', 'months.xlsx')
  expect([code, stderr]).toEqual([2, expect.stringContaining('an export writes CSV or Parquet; name a .csv')])
  expect(readdirSync(folder)).not.toContain('months.xlsx')
})

test('an export of no row says so: the file that was there is replaced by an empty one; a range the wrong way round is refused', async () => {
  const empty = await millrace('export', 'coverage', '--only', 'domain=exmaple.com', '--out', 'c.csv')
  expect([empty.code, empty.stderr]).toEqual([
    0,
    expect.stringContaining('No row of bi.coverage fits --only domain=exmaple.com.'),
  ])
  const { code, stderr } = await millrace('export', 'keyword_months', '--from', '2026-02', '--to', '2026-01')
  expect([code, stderr]).toEqual([2, expect.stringContaining('--from 2026-02 lies after --to 2026-01; swap them.')])
})

test.each([
  ['plan --force', '--force needs --from and --to: a run without a range loads nothing again.'],
  ['sandbox --like vendr', 'Allowed choices are own, vendor.'],
  ['sandbox --like vendor --hostile', '--like vendor takes --port, --key and --options; leave --hostile out.'],
  ['status --port 7000', '--port is the port of the page: add --serve, or leave it out.'],
  ['mcp --port 7000', '--port needs --http.'],
  ['quarantine show 1 2', 'Write `millrace quarantine show ID`, one id at a time'],
  ['migrate --dry-run --as moved', 'A dry run changes nothing, and --as does: leave one of them out.'],
  ['sandbox --like vendor --port x', "--port is 'x'; write a number."],
])('what would be passed over in silence is refused: %s', async (line, refusal) => {
  const { code, stderr } = await millrace(...line.split(' '))
  expect([code, stderr]).toEqual([2, expect.stringContaining(refusal)])
})

test('a pipeline that was named and has no recorded answers is not tested by saying nothing', async () => {
  const file = join(folder, 'pipelines', 'keywords.recorded.json')
  const kept = readFileSync(file)
  rmSync(file)
  const { code, stdout, stderr } = await millrace('test', 'keywords')
  writeFileSync(file, kept)
  expect([code, stdout, stderr]).toEqual([
    2,
    '',
    expect.stringContaining('keywords: no recorded answers; `millrace record UNIT` makes one'),
  ])
})

test('an export of a value that no row has and that was never on a list is refused; the file that was there stays', async () => {
  await db.query(`insert into etl.pipelines (pipeline, version, parameters, source, account, window_every, dimensions, definition)
    values ('keywords', 2, '{}', 'web-analytics.keywords', 'default', 'month', '{domain,country}', '{}')`)
  await db.query(
    `insert into etl.slices (pipeline_id, "values", wanted_since) select pipeline_id, '{a.com,us}', 1 from etl.pipelines where version = 2`,
  )
  const out = join(folder, 'rows.csv')
  writeFileSync(out, 'as it was')
  const refused = await millrace('export', 'coverage', '--only', 'domain=a.com,exmaple.com', '--out', out)
  expect([refused.code, refused.stderr, readFileSync(out, 'utf8')]).toEqual([
    2,
    expect.stringContaining('--only domain=exmaple.com: bi.coverage has no such row, and no pipeline has requested it.'),
    'as it was',
  ])
  // Not loaded yet: an export each night does not fail because of it.
  const { code } = await millrace('export', 'coverage', '--only', 'domain=a.com', '--out', out)
  expect(code).toBe(0)
})

test('credits by a thing that no pipeline runs for are refused with the nearest', async () => {
  await db.query(`insert into etl.pipelines (pipeline, version, parameters, source, account, window_every, dimensions, definition)
    values ('keywords', 1, '{}', 'web-analytics.keywords', 'default', 'month', '{domain,country}', '{}')`)
  const { code, stderr } = await millrace('quota', '--by', 'domian')
  expect([code, stderr]).toEqual([2, expect.stringContaining("--by: no pipeline runs for each 'domian'. Did you mean 'domain'?")])
})

test('a port of the sandbox that is no number is named as it was written', async () => {
  const { code, stderr } = await millrace('sandbox', '--port', 'abc')
  expect([code, stderr]).toEqual([2, expect.stringContaining("--port is 'abc'; write a number.")])
})

test('cancelling a run that has ended says that there was nothing to stop', async () => {
  const rows = await db.query<{ id: string }>(
    `insert into etl.runs (command, state, finished_at) values ('backfill', 'done', now()) returning run_id::text as id`,
  )
  const { code, stdout } = await millrace('cancel', String(rows[0]?.id))
  expect([code, stdout]).toEqual([0, `Run ${rows[0]?.id} has already ended (done); nothing to stop.\n`])
})

test('cancelling a run that ended with a held unit calls it held, as the status does', async () => {
  const rows = await db.query<{ id: string }>(
    `insert into etl.runs (command, state, finished_at, summary) values ('backfill', 'failed', now(), '{"units": {"planned": 1, "held": 1, "failed": 0, "waiting": 0, "loaded": 0, "unchanged": 0}}') returning run_id::text as id`,
  )
  const { stdout } = await millrace('cancel', String(rows[0]?.id))
  expect(stdout).toBe(`Run ${rows[0]?.id} has already ended (held); nothing to stop.\n`)
})

test('control characters of a rejected record are shown as text: they do not reach the terminal', async () => {
  const rows = await db.query<{ id: string }>(
    `with p as (insert into etl.pipelines (pipeline, version, parameters, source, account, window_every, dimensions, definition)
        values ('raws', 1, '{}', 'web-analytics.keywords', 'default', 'month', '{domain}', '{}') returning pipeline_id),
      a as (insert into etl.answer_rows (answer_id, job_id, asked_at, bytes, pipeline_id, shape_id, window_from, window_to, slice_id, sha256, landing)
        select 1, 1, now(), 1, pipeline_id, 1, '2026-01-01', '2026-02-01', 1, '', 'l' from p returning answer_id)
      insert into etl.quarantine (answer_id, job_id, pipeline, part, line, reason, raw)
        select answer_id, 1, 'raws', 1, 2, E'bad \\x1b[2J', E'a\\x1b]0;owned\\x07b\\r\\u009bc' from a returning quarantine_id::text as id`,
  )
  const id = String(rows[0]?.id)
  const show = await millrace('quarantine', 'show', id)
  expect([show.code, show.stderr]).toEqual([0, ''])
  expect(show.stdout).toContain('\na\\x1b]0;owned\\x07b\\x0d\\x9bc\n')
  const list = await millrace('quarantine', 'list', 'raws')
  for (const { stdout } of [show, list]) expect(stdout).not.toMatch(/[^\P{Cc}\n]/u)
  expect((await millrace('quarantine', 'show', id, '--json')).events[0]).toMatchObject({ raw: 'a\x1b]0;owned\x07b\r\x9bc' })
})

test('a command whose database was replaced ends with its error and, with --json, a summary', async () => {
  const running = start(['worker', '--json'])
  await expect
    .poll(async () => (await db.query("update etl.processes set name = 'other:1-0' returning name")).length, { timeout: 20_000 })
    .toBe(1)
  const { code, events, stderr } = await running.result
  expect(code, stderr).toBe(1)
  expect(events.slice(-2)).toMatchObject([
    { event: 'error', code: 'WAREHOUSE_COPY' },
    { event: 'summary', command: 'worker', error: 'WAREHOUSE_COPY' },
  ])
}, 60_000)

test('a .env that is a named pipe is refused with its name, instead of a wait without end', async () => {
  execFileSync('mkfifo', [join(folder, '.env')])
  const run = spawn(process.execPath, [launcher(), 'status'], {
    cwd: folder,
    env: cleanEnvironment(environment()),
    timeout: 20_000,
    killSignal: 'SIGKILL',
  })
  let said = ''
  run.stderr.on('data', (chunk) => (said += String(chunk)))
  const code = await new Promise((resolve) => run.on('close', resolve))
  rmSync(join(folder, '.env'))
  expect([code, said]).toEqual([2, expect.stringMatching(/\.env is a named pipe.*\[CONFIGURATION\]/s)])
})

test('an export of months that run backwards is refused like a backfill of them', async () => {
  const { code, stderr } = await millrace('export', 'keyword_months', '--from', '2026-09', '--to', '2026-08')
  expect([code, stderr]).toEqual([2, expect.stringContaining('--from 2026-09 lies after --to 2026-08; swap them.')])
})

test('an export makes the folder of its file', async () => {
  const { code, stderr } = await millrace('export', 'keyword_months', '--out', join('not', 'there', 'months.csv'))
  expect([code, stderr, readdirSync(join(folder, 'not', 'there'))]).toEqual([0, '', ['months.csv']])
})

describe('a folder without a warehouse', () => {
  test.each([['status'], ['quota'], ['approve'], ['export', 'keywords'], ['reports', 'list'], ['mcp']])(
    'is told what comes first, and nothing is started or made there: %s',
    async (...command: readonly string[]) => {
      const empty = mkdtempSync(join(tmpdir(), 'millrace-empty-'))
      const { code, stdout, stderr } = await runWarm(command, {}, empty)
      expect([code, stdout, stderr]).toEqual([
        2,
        '',
        expect.stringMatching(
          /There is no warehouse here yet:.*`millrace migrate`.*`millrace init NAME`.*`millrace demo`.*CONFIGURATION/s,
        ),
      ])
      expect(readdirSync(empty)).toEqual([])
      rmSync(empty, { recursive: true })
    },
  )
})

test.runIf(mayMount())(
  'a full disk is named as such by whatever command meets it, in one line that says what to do',
  async () => {
    const small = mountSmallDisk(1)
    try {
      cpSync(pipelinesOfRepository, join(small.folder, 'pipelines'), { recursive: true })
      const said = async (...args: string[]): Promise<unknown> => {
        const { code, stdout, stderr } = await runWarm(args, {}, small.folder)
        return [
          code,
          stdout,
          stderr.trim().split('\n').length,
          /No space left|The disk is full: free space/.test(stderr) || stderr,
        ]
      }
      expect(await said('migrate')).toEqual([1, '', 1, true])
      small.fill()
      expect(await said('init', 'sub')).toEqual([1, '', 1, true])
      expect(await said('new', 'dataset', 'own_visits', '--offline')).toEqual([1, '', 1, true])
      const exported = await millrace('export', 'keyword_months', '--out', join(small.folder, 'months.csv'))
      expect([exported.code, exported.stderr]).toEqual([1, expect.stringContaining('The disk is full: free space')])
    } finally {
      small.remove()
    }
  },
)

describe.runIf(existsSync('/dev/full'))('output that finds no room', () => {
  const intoFull = (...args: string[]): Promise<readonly [number | null, string]> => {
    const full = openSync('/dev/full', 'w')
    const child = spawn(process.execPath, [launcher(), ...args], {
      cwd: folder,
      env: cleanEnvironment(environment()),
      stdio: ['ignore', full, 'pipe'],
    })
    closeSync(full)
    let stderr = ''
    child.stderr?.on('data', (chunk: Buffer) => {
      stderr += chunk.toString()
    })
    return new Promise((done) => child.on('close', (code) => done([code, stderr])))
  }

  test.each(['status --json', 'status', 'reports list --json', 'migrate --json', 'check --offline', '--help'])(
    'fails the command, in one line that says what to do: %s',
    async (line) => {
      const said = expect.stringMatching(/^millrace: the output: ENOSPC.* The disk is full: free space.* \[DISK\]\n$/)
      expect(await intoFull(...line.split(' '))).toEqual([1, said])
    },
  )
})
