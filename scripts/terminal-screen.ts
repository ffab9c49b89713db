// What a terminal of some width shows of the text that is written to it, and that as a picture: as much of ANSI as our commands and their progress bar use.
import stringWidth from 'string-width'

/** One character where it begins; a wide one leaves the next column empty. */
interface Cell {
  readonly text: string
  readonly style: string
}

/** A terminal that never scrolls. */
export interface Screen {
  write(text: string): void
  /** Lines as shown, without the empty ones at the end. */
  text(): readonly string[]
  /** Characters that found no room in their line and went to the next: what a terminal of this width breaks. */
  wrapped(): number
  /** @param above the picture's first line, the command as a rule */
  svg(above: string): string
  /** Each line as SVG, placed as if it were the picture's `at`-th. */
  drawn(at?: number): readonly string[]
}

const graphemes = new Intl.Segmenter('en')
const pieces = /\u001b\[([?\d;]*)([A-Za-z])|\u001b[78]|\r|\n|[^\u001b\r\n]+/g

export const createScreen = (columns: number): Screen => {
  const lines: (Cell | null)[][] = [[]]
  let [row, column, style, wraps, wrapped] = [0, 0, '', true, 0]
  const line = (): (Cell | null)[] => {
    while (lines.length <= row) lines.push([])
    return lines[row] ?? []
  }
  const put = (text: string): void => {
    const width = stringWidth(text)
    if (column + width > columns) {
      if (!wraps) return
      wrapped += 1
      row += 1
      column = 0
    }
    const cells = line()
    while (cells.length < column) cells.push({ text: ' ', style: '' })
    cells[column] = { text, style }
    if (width === 2) cells[column + 1] = null
    column += width
  }
  const control = (numbers: string, letter: string): void => {
    const [first = 0] = numbers.split(';').map(Number)
    if (letter === 'm') style = styleAfter(style, numbers)
    if (letter === 'G') column = Math.max(0, first - 1)
    if (letter === 'A') row = Math.max(0, row - Math.max(1, first))
    if (letter === 'K') line().length = first === 2 ? 0 : Math.min(line().length, column)
    if (numbers === '?7') wraps = letter === 'h'
  }
  return {
    write: (text) => {
      for (const [piece, numbers = '', letter] of text.matchAll(pieces)) {
        if (letter !== undefined) control(numbers, letter)
        else if (piece === '\r') column = 0
        else if (piece.startsWith('\u001b')) continue
        else if (piece === '\n') [row, column] = [row + 1, 0]
        else for (const { segment } of graphemes.segment(piece)) put(segment)
      }
    },
    text: () => shown(lines).map((cells) => cells.map((cell) => cell?.text ?? '').join('')),
    wrapped: () => wrapped,
    svg: (above) => {
      const all = [[...above].map((text) => ({ text, style: 'prompt' })), ...shown(lines)]
      return pictureOf({ columns, rows: all.length, body: all.map(lineOf).join('\n') })
    },
    drawn: (at = 0) => shown(lines).map((cells, row) => lineOf(cells, at + row)),
  }
}

const shown = (lines: readonly (readonly (Cell | null)[])[]): readonly (readonly (Cell | null)[])[] =>
  lines.slice(0, lines.findLastIndex((cells) => cells.length > 0) + 1)

/** By the codes of `styleText`: those that switch a tone on; any other ends it. */
const tones: Readonly<Record<string, string>> = { 1: 'bold', 2: 'dim', 31: 'red', 32: 'green', 33: 'yellow' }
const styleAfter = (style: string, numbers: string): string =>
  numbers.split(';').reduce((before, number) => tones[number] ?? (/^(?:0?|22|39)$/.test(number) ? '' : before), style)

interface Picture {
  readonly columns: number
  readonly rows: number
  readonly body: string
  /** More rules of style. */
  readonly rules?: string
}

/** How far down a line is from the one before it. */
export const lineHeight = 19
const [cellWidth, margin] = [8.4, 14]

/** A terminal's window with what it shows. */
export const pictureOf = ({ columns, rows, body, rules = '' }: Picture): string => {
  const width = Math.round(columns * cellWidth + 2 * margin)
  const height = rows * lineHeight + 2 * margin
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<style>text{font:14px 'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#e6edf3;white-space:pre}.prompt,.green{fill:#7ee787}.red{fill:#ff7b72}.yellow{fill:#e3b341}.dim{fill:#8b949e}.bold{font-weight:bold}${rules}</style>
<rect width="100%" height="100%" rx="8" fill="#0f1720"/>
${body}
</svg>
`
}

/** Runs of one style, each stretched to the columns it fills, so that columns are aligned in any font. */
const lineOf = (cells: readonly (Cell | null)[], row: number): string =>
  runsOf(cells)
    .map((run) => textOf(run, margin + (row + 0.75) * lineHeight))
    .join('\n')

interface Run {
  readonly from: number
  readonly columns: number
  readonly text: string
  readonly style: string
}

/** Cut at two spaces as well: columns of a table are placed each for itself. */
const runsOf = (cells: readonly (Cell | null)[]): readonly Run[] => {
  const runs: Run[] = []
  for (const [at, cell] of cells.entries()) {
    if (cell === null) continue
    const last = runs.at(-1)
    const goesWithLast = last !== undefined && last.style === cell.style && !(last.text.endsWith('  ') && cell.text !== ' ')
    const run = { from: at, columns: 0, text: '', style: cell.style, ...(goesWithLast ? runs.pop() : {}) }
    runs.push({ ...run, columns: run.columns + stringWidth(cell.text), text: run.text + cell.text })
  }
  return runs.filter(({ text }) => text.trim() !== '')
}

const textOf = ({ from, columns, text, style }: Run, y: number): string => {
  const words = text.trimEnd()
  const x = (margin + from * cellWidth).toFixed(1)
  const length = ((columns - (text.length - words.length)) * cellWidth).toFixed(1)
  const escaped = words.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  const named = style === '' ? '' : ` class="${style}"`
  return `<text x="${x}" y="${y.toFixed(1)}" textLength="${length}" lengthAdjust="spacingAndGlyphs"${named} xml:space="preserve">${escaped}</text>`
}
