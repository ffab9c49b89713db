// Draws docs/pictures/terminal-*.svg: what real commands show in a terminal of 80 columns; 120 are tried too. Run: node scripts/draw-terminal.ts (needs `script` of
// util-linux for the terminal; `-- --error` draws the error alone). Fails where a line is wider than the terminal.
import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { cleanEnvironment, launcher } from '../test/support/command.ts'
import { openPictureWorld } from './picture-world.ts'
import { createScreen, type Screen } from './terminal-screen.ts'

const pictures = resolve(import.meta.dirname, '..', 'docs', 'pictures')
const world = await openPictureWorld()
try {
  if (!process.argv.includes('--error')) await drawWork()
  const definition = join(world.folder, 'pipelines', 'keywords.yaml')
  const text = readFileSync(definition, 'utf8')
  writeFileSync(definition, text.replace(/^window:/m, 'windw:').replace('type: bigint', 'type: bigit'))
  await draw('error', ['run'])
} finally {
  await world.close()
}

async function drawWork(): Promise<void> {
  await draw('backfill', ['backfill', 'keywords', '--from', '2026-01', '--to', '2026-08'], isHalfDone)
  await world.said('run')
  world.addDomain()
  await draw('plan', ['plan'])
  await draw('status', ['status'])
  await draw('help', ['--help'])
}

/** @param isEnough stops the command as soon as the screen shows what the picture is about; left out: its end does */
async function draw(name: string, args: readonly string[], isEnough: (shown: string) => boolean = () => false): Promise<void> {
  for (const columns of [80, 120]) {
    const screen = await shownBy(args, columns, isEnough)
    if (screen.wrapped() > 0)
      throw new Error(`millrace ${args.join(' ')} is wider than ${columns} columns:\n${screen.text().join('\n')}`)
    if (columns === 80) writeFileSync(join(pictures, `terminal-${name}-80.svg`), screen.svg(`$ millrace ${args.join(' ')}`))
    process.stdout.write(`${name}, ${columns} columns: ${screen.text().length} lines\n`)
  }
}

function isHalfDone(shown: string): boolean {
  const percent = Number(/(\d+)% \|/.exec(shown)?.[1] ?? 0)
  return percent >= 30 && percent < 90 && /time left \d/.test(shown)
}

function shownBy(args: readonly string[], columns: number, isEnough: (shown: string) => boolean): Promise<Screen> {
  const command = `stty cols ${columns} rows 50; exec '${process.execPath}' '${launcher()}' ${args.join(' ')}`
  const environment = { ...cleanEnvironment({ ...world.environment, TERM: 'xterm-256color' }), CI: undefined }
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    cwd: world.folder,
    env: environment,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const screen = createScreen(columns)
  let isDrawn = false
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (isDrawn) return
    screen.write(text)
    isDrawn = isEnough(screen.text().join('\n'))
    if (isDrawn) child.kill('SIGTERM')
  })
  return new Promise((done) => child.once('close', () => done(screen)))
}
