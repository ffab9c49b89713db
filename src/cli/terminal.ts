// What the terminal can show: colours only where it takes them, texts by the columns they fill, lines no wider than it is.
import { sep } from 'node:path'
import { styleText } from 'node:util'
import stringWidth from 'string-width'

/** Colours of meaning: green is done, yellow waits for somebody, red failed, dim is less important. */
type Tone = 'green' | 'yellow' | 'red' | 'dim' | 'bold'

/** @param stream the text goes to: NO_COLOR, FORCE_COLOR and pipes are respected */
export const paint = (tone: Tone, text: string, stream: NodeJS.WriteStream = process.stdout): string =>
  text === '' ? text : styleText(tone, text, { stream })

/** `painted` for a state of a unit, a run or a finding. */
export const stateTone = (state: string): Tone => {
  if (/^(?:failed|error|cancelled)$/.test(state)) return 'red'
  if (/^(?:held|warning|interrupted|waiting)$/.test(state)) return 'yellow'
  return /^(?:done|loaded|proved)$/.test(state) ? 'green' : 'dim'
}

/** Columns a text fills: 2 for 東, none for a colour or an accent that combines. */
export const textWidth = (text: string): number => stringWidth(text)

/** By what a reader takes for one character, which is its default. */
const graphemes = new Intl.Segmenter('en')

/** `text` in at most `columns`, its end cut at a whole character. */
export const clipText = (text: string, columns: number): string => {
  if (textWidth(text) <= columns) return text
  let clipped = ''
  let width = 0
  for (const { segment } of graphemes.segment(text)) {
    width += textWidth(segment)
    if (width > columns - 1) break
    clipped += segment
  }
  return `${clipped}…`
}

/** `text` with files below `folder` named from there, as a person in it would. */
export const nearPaths = (text: string, folder: string = process.cwd()): string => {
  if (folder === sep) return text
  const above = `${folder}${sep}`
  return text
    .split(above)
    .reduce((before, after) => (/(?:^|[\s'"`(])$/.test(before) ? `${before}${after}` : `${before}${above}${after}`))
}

/** Columns of a terminal; null: it is none, and lines may have any length. */
export const columnsOf = (stream: NodeJS.WriteStream): number | null => (stream.isTTY ? stream.columns || 80 : null)

/** What the lines after the first begin with: the first one's indentation, or the column of the value in `name:   value`. */
const hangingOf = (text: string): string => ' '.repeat(textWidth(/^ *(?:[\w ]+: {2,})?/.exec(text)?.[0] ?? ''))

/** `text` broken at words, line by line. A word that is wider than a line is left whole, so that it can be copied. @param columns null: as it is */
export const wrapText = (text: string, columns: number | null): string =>
  columns === null
    ? text
    : text
        .split('\n')
        .map((line) => wrapLine(line, columns))
        .join('\n')

const wrapLine = (line: string, columns: number): string => {
  if (textWidth(line) <= columns) return line
  const hanging = hangingOf(line)
  let [wrapped, width] = ['', 0]
  for (const word of line.match(/\s*\S+/g) ?? []) {
    const isBroken = wrapped !== '' && width + textWidth(word) > columns
    wrapped += isBroken ? `\n${hanging}${word.trimStart()}` : word
    width = isBroken ? hanging.length + textWidth(word.trimStart()) : width + textWidth(word)
  }
  return wrapped
}
