// The output of a command: lines for people or one JSON object a line for machines, all through the redactor. Tables are aligned by display width, and split
// into blocks where the terminal is narrower; colours only where the terminal supports them.
import { sep } from 'node:path'
import { stripVTControlCharacters, styleText } from 'node:util'
import stringWidth from 'string-width'
import { formatNumber } from '../core/counted.ts'
import { isRecord, jsonOrNull } from '../core/json.ts'
import { redact } from '../core/redact.ts'

/** The output of a command: results on standard output, progress on standard error. */
export type Output = ReturnType<typeof createOutput>

/** By column heading, the content of a row's cell; null is shown as a dash. */
type Columns<Row> = Readonly<Record<string, (row: Row) => Cell>>

/** Columns named after the fields that they show. */
export const fields = <Name extends string>(...names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, (row: Readonly<Record<Name, Cell>>) => row[name]])) as {
    readonly [Of in Name]: (row: { readonly [Field in Of]: Cell }) => Cell
  }

type Cell = string | number | null

const shown = (cell: Cell): string => (typeof cell === 'number' ? formatNumber(cell) : (cell ?? '-'))

let hasBar = false

/** Tells that a progress bar is on the screen: output then replaces its line, and the bar is drawn again below. */
export const setBarVisible = (isDrawn: boolean): void => {
  hasBar = isDrawn
}

/** Removes the bar's line. Call before writing anything else to the terminal. */
export const clearBar = (): void => {
  if (hasBar) process.stderr.write('\r\u001b[2K')
}

/** Restores the cursor and line wrapping, which a bar switches off. Call when a process ends while a bar is shown. */
export const restoreScreen = (): void => {
  if (hasBar) process.stderr.write('\r\u001b[2K\u001b[?7h\u001b[?25h')
}

/** `warn: status page (error: …)`. @param text one line that the log wrote */
const logWords = (text: string): string => {
  const line = jsonOrNull(text)
  if (!isRecord(line)) return text.trimEnd()
  const { level, time: _, msg, ...more } = line
  const about = Object.entries(more).map(
    ([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  return `${String(level)}: ${String(msg)}${about.length === 0 ? '' : ` (${about.join(', ')})`}`
}

/** @param json one JSON object a line instead of text */
export const createOutput = (json: boolean) => {
  let summedUp = false
  /** A line for people on standard output, broken at words where the terminal is narrower; nothing with `--json`. */
  const line = (text = ''): void => {
    // A text with line breaks is a script or SQL: wrapping would change it.
    const columns = text.includes('\n') ? null : columnsOf(process.stdout)
    if (json) return
    clearBar()
    process.stdout.write(`${redact(wrapText(shortenPaths(text), columns))}\n`)
  }
  /** One JSON object on standard output; only with `--json`. */
  const event = (value: Readonly<Record<string, unknown>>): void => {
    summedUp ||= value['event'] === 'summary'
    if (json) process.stdout.write(`${redact(JSON.stringify(value))}\n`)
  }
  /** Columns aligned for people; numbers to the right; in blocks where the terminal is too narrow. */
  const table = <Row>(rows: readonly Row[], columns: Columns<Row>): void => {
    const cells = rows.map((row) => Object.values(columns).map((show) => shown(show(row))))
    for (const text of layOut(Object.keys(columns), cells, columnsOf(process.stdout)))
      line(/^─[─ ]*$/.test(text) ? paint('dim', text) : text)
  }
  return {
    ...{ json, line, event, table },
    isSummedUp: () => summedUp,
    summary: (command: string, value: Readonly<Record<string, unknown>>) => event({ event: 'summary', command, ...value }),
    /** A remark on standard error, in both modes. */
    note: (text: string): void => {
      clearBar()
      process.stderr.write(`${redact(wrapText(shortenPaths(text), columnsOf(process.stderr)))}\n`)
    },
    /** A line of the log: JSON for machines, plain words for a person at a terminal. */
    log: (text: string): void => {
      clearBar()
      process.stderr.write(json || !process.stderr.isTTY ? text : `${wrapText(logWords(text), columnsOf(process.stderr))}\n`)
    },
    /** An empty line and a table; nothing without rows. */
    optionalTable: <Row>(rows: readonly Row[], columns: Columns<Row>): void => {
      if (rows.length === 0) return
      line()
      table(rows, columns)
    },
  }
}

/** `2026-11`, `2026-11 and 2026-12`, `2026-11..2027-02`. @param windows in order */
export const showWindows = (windows: readonly string[]): string => {
  const [first = '', second] = windows
  if (windows.length <= 2) return second === undefined ? first : `${first} and ${second}`
  return `${first.split('..')[0]}..${windows.at(-1)?.split('..').at(-1)}`
}

/** `4.2 s`, `3 min 05 s`, `2 h 10 min`. */
export const formatSeconds = (seconds: number): string => {
  if (seconds < 60) return `${seconds.toFixed(1)} s`
  const whole = Math.round(seconds)
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, '0')} min`
}

const isNumeric = (cell: string): boolean => /^-?[\d.,]+%?$/.test(stripVTControlCharacters(cell)) || cell === '-'
const gap = 2

/**
 * Lines of a table; a column of numbers is aligned to the right. A table wider than `columns` is split into blocks that each begin with the first
 * column.
 * @param columns of the terminal; null: no terminal, lines may have any length
 */
export const layOut = (head: readonly string[], rows: readonly (readonly string[])[], columns: number | null = null) => {
  const widths = head.map((title, column) =>
    rows.reduce((widest, row) => Math.max(widest, stringWidth(row[column] ?? '')), stringWidth(title)),
  )
  const right = head.map((_, column) => rows.length > 0 && rows.every((row) => isNumeric(row[column] ?? '-')))
  const show = (row: readonly string[], block: readonly number[]): string =>
    block
      .map((column) => padded(row[column] ?? '', Math.min(widths[column] ?? 0, columns ?? Infinity), right[column] === true))
      .join(' '.repeat(gap))
      .trimEnd()
  return blocksOf(widths, columns).flatMap((block, index) => [
    ...(index === 0 ? [] : ['']),
    show(head, block),
    block.map((column) => '─'.repeat(Math.min(widths[column] ?? 0, columns ?? Infinity))).join(' '.repeat(gap)),
    ...rows.map((row) => show(row, block)),
  ])
}

const padded = (cell: string, width: number, isRight: boolean): string => {
  const text = clipText(cell, width)
  const room = ' '.repeat(Math.max(0, width - stringWidth(text)))
  return isRight ? `${room}${text}` : `${text}${room}`
}

/** Blocks of a table: the indexes of the columns that fit side by side. */
const blocksOf = (widths: readonly number[], columns: number | null): readonly (readonly number[])[] => {
  const all = widths.map((_, column) => column)
  if (columns === null) return [all]
  const [first = 0] = widths
  const blocks: number[][] = []
  let room = 0
  for (const column of all.slice(1)) {
    const width = gap + (widths[column] ?? 0)
    const block = blocks.at(-1)
    if (block === undefined || width > room) {
      blocks.push([0, column])
      room = columns - first - width
    } else {
      block.push(column)
      room -= width
    }
  }
  return blocks.length === 0 ? [all] : blocks
}

/** Colours by meaning: green is done, yellow waits for a person, red failed, dim is less important. */
type Tone = 'green' | 'yellow' | 'red' | 'dim' | 'bold'

/** @param stream the text goes to: NO_COLOR, FORCE_COLOR and pipes are respected */
export const paint = (tone: Tone, text: string, stream: NodeJS.WriteStream = process.stdout): string =>
  text === '' ? text : styleText(tone, text, { stream })

/** The colour for a state of a unit, a run or a finding. */
export const stateTone = (state: string): Tone => {
  if (/^(?:failed|error|cancelled)$/.test(state)) return 'red'
  if (/^(?:held|warning|interrupted|waiting)$/.test(state)) return 'yellow'
  return /^(?:done|loaded|proved)$/.test(state) ? 'green' : 'dim'
}

/** Splits text into what a reader sees as one character (the default granularity). */
const graphemes = new Intl.Segmenter('en')

/** `text` in at most `columns`, its end cut at a whole character. */
export const clipText = (text: string, columns: number): string => {
  if (stringWidth(text) <= columns) return text
  let clipped = ''
  let width = 0
  for (const { segment } of graphemes.segment(text)) {
    width += stringWidth(segment)
    if (width > columns - 1) break
    clipped += segment
  }
  return `${clipped}…`
}

/** What the service sent, for a terminal: control characters, which would steer it, as `\x1b`; line breaks and tabs stay. */
export const showControls = (text: string): string =>
  text.replaceAll(/[^\P{Cc}\n\t]/gu, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`)

/** `text` with paths below `folder` made relative to it. */
export const shortenPaths = (text: string, folder: string = process.cwd()): string => {
  if (folder === sep) return text
  const above = `${folder}${sep}`
  return text
    .split(above)
    .reduce((before, after) => (/(?:^|[\s'"`(])$/.test(before) ? `${before}${after}` : `${before}${above}${after}`))
}

/** Columns of a terminal; null: no terminal, lines may have any length. */
export const columnsOf = (stream: NodeJS.WriteStream): number | null => (stream.isTTY ? stream.columns || 80 : null)

/** The indentation of continuation lines: that of the first line, or the column of the value in `name:   value`. */
const hangingOf = (text: string): string => ' '.repeat(stringWidth(/^ *(?:[\w ]+: {2,})?/.exec(text)?.[0] ?? ''))

/** Wraps `text` at words. A word wider than a line is not broken, so that it can be copied. @param columns null: no wrapping */
export const wrapText = (text: string, columns: number | null): string =>
  columns === null
    ? text
    : text
        .split('\n')
        .map((line) => wrapLine(line, columns))
        .join('\n')

const wrapLine = (line: string, columns: number): string => {
  if (stringWidth(line) <= columns) return line
  const hanging = hangingOf(line)
  let [wrapped, width] = ['', 0]
  for (const word of line.match(/\s*\S+/g) ?? []) {
    const isBroken = wrapped !== '' && width + stringWidth(word) > columns
    wrapped += isBroken ? `\n${hanging}${word.trimStart()}` : word
    width = isBroken ? hanging.length + stringWidth(word.trimStart()) : width + stringWidth(word)
  }
  return wrapped
}
