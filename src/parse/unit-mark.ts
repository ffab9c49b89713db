// The number of the unit that each row belongs to, written behind its cells: the process knows the units already, the database would join them by text.
import { type CopyWriter, ensureRoom } from './copy-text.ts'

/** Ends rows with the number of their unit. */
export interface UnitMark {
  /** Rows of no unit that was named; they bear 0. */
  strays: number
  /** Puts the number behind the row that begins at `from` and was written last. */
  end(writer: CopyWriter, from: number): void
}

const tab = 9
const lf = 10
/** A tab, the digits of a bigint, a line end. */
const roomForNumber = 24
/** Longer values are looked up for each row. */
const rememberedBytes = 4_096

/**
 * Numbers by the bytes of the values, read as latin1.
 * @param lines of units: values in COPY's text format, in the order of their places, then the number, all divided by tabs
 */
export const unitNumbers = (lines: string): ReadonlyMap<string, number> => {
  const text = Buffer.from(lines).toString('latin1')
  const numbers = new Map<string, number>()
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at)
    const to = end < 0 ? text.length : end
    const before = text.lastIndexOf('\t', to - 1)
    numbers.set(text.slice(at, before), Number(text.slice(before + 1, to)))
    at = to + 1
  }
  return numbers
}

/**
 * Rows of one unit usually follow each other, so that most are compared with the one before and not looked up.
 * @param places of the cells that tell units apart, ascending @param units see `unitNumbers`
 */
export const createUnitMark = (places: readonly number[], units: ReadonlyMap<string, number>): UnitMark => {
  const starts = new Int32Array(places.length)
  const ends = new Int32Array(places.length)
  const last = Buffer.alloc(rememberedBytes)
  let lastLength = -1
  let suffix = suffixOf(0)
  let isStray = false
  const isLast = (bytes: Buffer): boolean => {
    let at = 0
    for (let index = 0; index < places.length; index += 1) {
      const [start, end] = [starts[index] ?? 0, ends[index] ?? 0]
      if (at + end - start + 1 > lastLength) return false
      for (let from = start; from < end; from += 1) if (bytes[from] !== last[at++]) return false
      if (last[at++] !== tab) return false
    }
    return at === lastLength
  }
  const remember = (bytes: Buffer): void => {
    let at = 0
    for (let index = 0; index < places.length; index += 1) {
      const [start, end] = [starts[index] ?? 0, ends[index] ?? 0]
      if (at + end - start + 1 > rememberedBytes) {
        lastLength = -1
        return
      }
      at += bytes.copy(last, at, start, end)
      last[at++] = tab
    }
    lastLength = at
  }
  const nameIn = (bytes: Buffer): string =>
    places.map((_, index) => bytes.toString('latin1', starts[index], ends[index])).join('\t')
  const mark: UnitMark = {
    strays: 0,
    end: (writer, from) => {
      findCells(writer.bytes, from, places, starts, ends)
      if (lastLength < 0 || !isLast(writer.bytes)) {
        const unit = units.get(nameIn(writer.bytes))
        isStray = unit === undefined
        suffix = suffixOf(unit ?? 0)
        remember(writer.bytes)
      }
      if (isStray) mark.strays += 1
      ensureRoom(writer, roomForNumber)
      const { bytes } = writer
      // In place of the line end.
      let to = writer.at - 1
      for (let at = 0; at < suffix.length; at += 1) bytes[to++] = suffix[at] ?? 0
      writer.at = to
    },
  }
  return mark
}

const suffixOf = (unit: number): Buffer => Buffer.from(`\t${unit}\n`, 'latin1')

/** Where the cells at `places` of the row at `from` begin and end. */
const findCells = (bytes: Buffer, from: number, places: readonly number[], starts: Int32Array, ends: Int32Array): void => {
  let at = from
  let place = 0
  for (let index = 0; index < places.length; index += 1) {
    for (const wanted = places[index] ?? 0; place < wanted; place += 1) {
      while (bytes[at] !== tab && bytes[at] !== lf) at += 1
      at += 1
    }
    starts[index] = at
    while (bytes[at] !== tab && bytes[at] !== lf) at += 1
    ends[index] = at
  }
}
