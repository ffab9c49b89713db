// The fast lane: records of one line, from bytes to COPY bytes in one pass. Whatever it is not sure of it leaves to the full lane.
import { ensureRoom } from './copy-text.ts'
import type { Header } from './csv-header.ts'
import { fastColumns, roomForCell } from './fast-cell.ts'
import { createFastLine } from './fast-line.ts'
import { countRows, type RowSink } from './row-sink.ts'

export interface FastLane {
  /**
   * Takes whole lines of valid UTF-8 from `[from, to)`, where a record begins, up to the first it is not sure of.
   * Returns where that begins (`to` where there is none) and how many lines were taken.
   */
  take(bytes: Buffer, from: number, to: number): { sureTo: number; lines: number }
}

const lf = 10
const cr = 13

/** Null where a file's column is wanted twice: then every cell is looked up by its column. */
export const createFastLane = (sink: RowSink, header: Header): FastLane | null => {
  const used = header.places.filter((place) => place >= 0)
  if (new Set(used).size < used.length) return null
  const columns = fastColumns(sink.plan, header)
  const line = createFastLine(columns, sink.plan.columns.length)
  const room = (columns.length + sink.plan.columns.length) * roomForCell
  const { writer } = sink
  return {
    take: (bytes, from, to) => {
      let at = from
      let lines = 0
      let rows = 0
      while (at < to) {
        const byte = bytes[at]
        if (byte === lf || byte === cr) {
          at += byte === cr && bytes[at + 1] === lf ? 2 : 1
          lines += 1
          continue
        }
        ensureRoom(writer, room)
        const next = line(bytes, at, writer)
        if (next < 0) break
        at = next
        lines += 1
        rows += 1
      }
      countRows(sink, rows)
      return { sureTo: at, lines }
    },
  }
}
