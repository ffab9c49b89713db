// Draws docs/pictures/demo.svg: `npx millrace demo` in a terminal, as it moves. The run takes the time it took; then its lines come one after the other, to be read.
// Run: node scripts/draw-demo.ts (needs `script` of util-linux for the terminal). Fails where the picture is larger than 300 kB.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { cleanEnvironment, launcher } from '../test/support/command.ts'
import { createScreen, lineHeight, pictureOf } from './terminal-screen.ts'

const [columns, rows] = [92, 26]
const [linesPerSecond, secondsAtEnd] = [6, 5]
const mostBytes = 300_000

interface Said {
  readonly seconds: number
  readonly text: string
}

const said = await recorded()
const svg = drawn(said)
if (svg.length > mostBytes) throw new Error(`docs/pictures/demo.svg would be ${svg.length} bytes; ${mostBytes} are allowed`)
writeFileSync(resolve(import.meta.dirname, '..', 'docs', 'pictures', 'demo.svg'), svg)
process.stdout.write(`${svg.length} bytes, ${said.length} pieces of text\n`)

/** What the demo writes, and when; its generated password is left out. */
async function recorded(): Promise<readonly Said[]> {
  const home = mkdtempSync(join(tmpdir(), 'millrace-demo-'))
  const command = `stty cols ${columns} rows 50; exec '${process.execPath}' '${launcher()}' demo`
  const environment = { ...cleanEnvironment({ MILLRACE_HOME: home, TERM: 'xterm-256color' }), CI: undefined }
  const child = spawn('script', ['-qec', command, '/dev/null'], { env: environment, stdio: ['ignore', 'pipe', 'inherit'] })
  const start = performance.now()
  const pieces: Said[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    pieces.push({ seconds: (performance.now() - start) / 1000, text: text.replace(/(bi_demo:)[^@]+@/, '$1…@') })
  })
  const code = await new Promise((done) => child.once('close', done))
  rmSync(home, { recursive: true, force: true })
  if (code !== 0) throw new Error(`millrace demo ended with ${code}`)
  return pieces
}

/** One line of the terminal, from one moment to another; null: to the end. */
interface Shown {
  readonly svg: string
  readonly from: number
  readonly to: number | null
}

function drawn(pieces: readonly Said[]): string {
  const screen = createScreen(columns)
  const bar: Shown[] = []
  let isRunning = true
  let done = 0
  for (const { seconds, text } of pieces) {
    screen.write(text)
    isRunning &&= screen.text().length <= 1
    if (!isRunning) continue
    done = seconds
    const line = screen.drawn(1)[0]
    const last = bar.at(-1)
    if (line === undefined || line === last?.svg) continue
    if (last !== undefined) bar.splice(-1, 1, { ...last, to: seconds })
    bar.push({ svg: line, from: seconds, to: null })
  }
  if (screen.wrapped() > 0) throw new Error(`the demo is wider than ${columns} columns`)
  const lines = screen.drawn(1).map((svg, at): Shown => ({ svg, from: done + at / linesPerSecond, to: null }))
  const last = bar.at(-1)
  if (last !== undefined) bar.splice(-1, 1, { ...last, to: done })
  return moving([...bar, ...lines], lines)
}

function moving(all: readonly Shown[], lines: readonly Shown[]): string {
  const length = (lines.at(-1)?.from ?? 0) + secondsAtEnd
  const percent = (seconds: number): string => `${((100 * seconds) / length).toFixed(2)}%`
  const frames = all.map(({ from, to }, at) => {
    const ends = to === null ? '' : `${percent(to)}{opacity:0}`
    return `@keyframes l${at}{0%{opacity:0}${percent(from)}{opacity:1}${ends}}.l${at}{animation:l${at} ${length.toFixed(1)}s step-end infinite}`
  })
  // The window follows the last line.
  const scrolled = lines
    .map(({ from }, at) => ({ from, by: at + 2 - rows }))
    .filter(({ by }) => by > 0)
    .map(({ from, by }) => `${percent(from)}{transform:translateY(-${by * lineHeight}px)}`)
  const still = Math.max(0, lines.length + 1 - rows) * lineHeight
  const rules = [
    // What shows no movement shows the result.
    '.bar{opacity:0}',
    ...frames,
    `@keyframes s{0%{transform:none}${scrolled.join('')}}.s{animation:s ${length.toFixed(1)}s step-end infinite}`,
    // Who wants nothing to move sees the end.
    `@media (prefers-reduced-motion:reduce){.s,.s g{animation:none}.s{transform:translateY(-${still}px)}}`,
  ].join('')
  const prompt = createScreen(columns)
  prompt.write('\u001b[32m$ npx millrace demo')
  const groups = all.map(({ svg, to }, at) => `<g class="l${at}${to === null ? '' : ' bar'}">${svg}</g>`)
  return pictureOf({ columns, rows, rules, body: `<g class="s">\n${[...prompt.drawn(), ...groups].join('\n')}\n</g>` })
}
