// What a terminal gets and a pipe does not: colours, lines of its width, completion in real shells; and errors for machines.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cleanEnvironment, launcher, pipelinesOfRepository, runCommand } from '../support/command.ts'

let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-terminal-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  symlinkSync(launcher(), join(folder, 'millrace'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const has = (program: string): boolean => spawnSync(program, ['--version']).error === undefined
/** Where tests run for nobody's eyes, `CI` says so, and colours are left out. */
const environment = (more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv => ({
  ...cleanEnvironment({ PATH: `${folder}:${join(process.execPath, '..')}:${process.env['PATH'] ?? ''}`, HOME: folder, ...more }),
  CI: undefined,
})
const shell = (program: string, script: string): string[] =>
  execFileSync(program, ['-c', script], { cwd: folder, env: environment(), encoding: 'utf8' }).trim().split('\n')

describe('colours', () => {
  const wrong = ['run', '--pipelines', 'nowhere']
  const red = '\u001b[31mmillrace:'
  const inTerminal = (more: Readonly<Record<string, string>>): string =>
    execFileSync('script', ['-qec', `millrace ${wrong.join(' ')} || true`, '/dev/null'], {
      cwd: folder,
      env: environment({ TERM: 'xterm', ...more }),
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })

  test('are not written into a pipe, unless they are forced', async () => {
    expect((await runCommand(wrong, {}, folder)).stderr).toMatch(/^millrace: /)
    expect((await runCommand(wrong, { FORCE_COLOR: '1' }, folder)).stderr).toContain(red)
  })

  test.runIf(has('script'))('are shown by a terminal, unless NO_COLOR is set', () => {
    expect(inTerminal({})).toContain(red)
    const plain = inTerminal({ NO_COLOR: '1' })
    expect([plain.includes('millrace: The folder'), plain.includes('[31m')]).toEqual([true, false])
  })
})

describe('what lasts, in a terminal', () => {
  test.runIf(has('script'))('ends with 130 where the terminal is closed and takes no more words', async () => {
    const code = join(folder, 'exit-code')
    // The shell outlives the terminal, to see how the command ends.
    const command = `trap : HUP; millrace sandbox --port 0; echo $? >'${code}'`
    const terminal = spawn('script', ['-qec', `sh -c "${command.replaceAll('$', String.raw`\$`)}"`, '/dev/null'], {
      cwd: folder,
      env: environment({ TERM: 'xterm', SHELL: '/bin/sh' }),
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    let shown = ''
    terminal.stdout.on('data', (text: Buffer) => (shown += String(text)))
    await expect.poll(() => shown, { timeout: 30_000 }).toMatch(/http:/)
    terminal.kill('SIGKILL')
    await expect.poll(() => existsSync(code) && readFileSync(code, 'utf8'), { timeout: 30_000 }).toBe('130\n')
  })

  test.runIf(has('script'))('shows no bar, and a line for psql that can be copied', async () => {
    const home = mkdtempSync(join(tmpdir(), 'millrace-lasting-'))
    try {
      expect((await runCommand(['migrate'], { MILLRACE_HOME: home, MILLRACE_WEB_PORT: '0' }, folder)).code).toBe(0)
      const command = 'timeout -s INT 12 millrace status --serve || true'
      const shown = execFileSync('script', ['-qec', command, '/dev/null'], {
        cwd: folder,
        env: environment({ TERM: 'xterm', MILLRACE_HOME: home, MILLRACE_WEB_PORT: '0' }),
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      })
      expect(shown).toMatch(/^The status page is at http:\S+\. Ctrl-C ends it\.\r\n/)
      expect(shown).toMatch(/^ {2}PGPASSWORD=\$\(cat '\S+'\) psql -h \S+ -p \d+ -U \S+ \w+\r$/m)
      expect(shown).not.toMatch(/planning|\u001b\[\?/)
    } finally {
      rmSync(home, { recursive: true, force: true })
    }
  })
})

describe('completion', () => {
  test.runIf(has('bash'))('works in bash', () => {
    const words = (line: string): string[] =>
      shell(
        'bash',
        `eval "$(millrace completion bash)"; COMP_WORDS=(${line}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _millrace; printf '%s\\n' "\${COMPREPLY[@]}"`,
      )
    expect(words('millrace back')).toEqual(['backfill'])
    expect(words("millrace backfill ''")).toEqual(['keywords', 'shopper_category_performance', 'traffic_and_engagement'])
  })

  test.runIf(has('zsh'))('works in zsh', () => {
    const script = `autoload -Uz compinit; compinit -D -u; eval "$(millrace completion zsh)"; _describe() { print -l -- $found }
      print -- $_comps[millrace]; words=(millrace backfill keywords --order ''); CURRENT=5; _millrace; words=(millrace sta); CURRENT=2; _millrace`
    expect(shell('zsh', script)).toEqual([
      '_millrace',
      'newest:',
      'oldest:',
      'status:Units by state, coverage by month, last run, freshness, quota and quarantine',
    ])
  })

  test.runIf(has('fish'))('works in fish', () => {
    const words = (line: string): string[] => shell('fish', `millrace completion fish | source; complete -C '${line}'`)
    expect(words('millrace back')).toEqual(['backfill\tLoad a range of months, both ends included'])
    expect(words('millrace run k')).toEqual(['keywords\tpipeline'])
  })
})

test('completion tells machines the script, and what may come next, with a summary at the end', async () => {
  const told = async (...args: string[]) => (await runCommand(['completion', ...args], {}, folder)).events
  expect(await told('bash', '--json')).toEqual([
    { event: 'summary', command: 'completion', shell: 'bash', script: expect.stringContaining('complete') },
  ])
  expect(await told('--json', 'fish', '--', 'back')).toEqual([
    { event: 'candidate', text: 'backfill', about: expect.stringContaining('range of months') },
    { event: 'summary', command: 'completion', shell: 'fish', candidates: 1 },
  ])
})

describe('errors for machines', () => {
  const events = async (...args: string[]) => (await runCommand([...args, '--json'], {}, folder)).events

  test('tell what commander refuses', async () => {
    expect(await events('run', '--bogus')).toEqual([
      { event: 'error', code: 'USAGE', message: "unknown option '--bogus'" },
      { event: 'summary', command: 'run', error: 'USAGE' },
    ])
    expect(await events('backfil')).toMatchObject([
      { event: 'error', code: 'USAGE', message: expect.stringContaining("'backfil'") },
      { event: 'summary', command: 'millrace', error: 'USAGE' },
    ])
  })

  test('are followed by a summary: of a run with its counts, as nothing was called; without them where something may have been done', async () => {
    const summary = { event: 'summary', command: 'run', run_id: null, requests: 0, error: 'USAGE' }
    expect((await events('run', '--pipelines', 'nowhere')).at(-1)).toMatchObject({ ...summary, units: { planned: 0, failed: 0 } })
    const away = { DATABASE_URL: 'postgres://localhost:1/away' }
    const { events: told } = await runCommand(['reports', 'list', '--json'], away, folder)
    expect(told).toMatchObject([
      { event: 'error', code: 'DATABASE_UNREACHABLE' },
      { event: 'summary', command: 'reports list', error: 'DATABASE_UNREACHABLE' },
    ])
    expect(told.at(-1)).not.toHaveProperty('units')
  })

  test('end with an example of the command; the commands that take a refused option are named', async () => {
    const said = async (...args: string[]) => (await runCommand(args, {}, folder)).stderr
    expect(await said('backfill')).toBe(
      "error: missing required argument 'pipeline'\n(for example: millrace backfill keywords --from 2026-01 --to 2026-03 --dry-run; `millrace backfill --help` has all it takes)\n",
    )
    expect(await said('run', '--from', '2026-01')).toMatch(
      /unknown option '--from'\n\(--from is an option of backfill, plan, replay[^)]*\)\n/,
    )
    expect(await said('run', '--bogus')).not.toContain('is an option of')
    expect(await said('--json', 'status')).toContain('(write --json after the command, for example: millrace status --json)')
    expect(await said('run', '--pipelines', 'nowhere')).toContain('millrace init')
  })

  test.runIf(process.platform === 'linux')('a folder that cannot be written is no fault of the warehouse', async () => {
    // EPERM, five letters like the state of a database.
    const refused = await runCommand(['init', '/sys/mine'], {}, folder)
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/mkdir '\/sys\/mine'.*\[DISK\]/s)])
    expect(refused.stderr).not.toContain('warehouse')
  })

  test('name file, line and column of each finding of check', async () => {
    const file = join(folder, 'pipelines', 'keywords.yaml')
    const text = readFileSync(file, 'utf8')
    writeFileSync(file, text.replace(/^window:/m, 'windw:'))
    const line = text.split('\n').findIndex((one) => one.startsWith('window:')) + 1
    const found = (await events('check', '--offline')).filter(({ event, area }) => event === 'finding' && area === 'definition')
    writeFileSync(file, text)
    expect(found).toContainEqual(expect.objectContaining({ level: 'error', file, line, column: 1 }))
  })
})
