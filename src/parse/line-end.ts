// How lines end, and whether a body's last line ends as the others do: one that was cut right there looks whole otherwise.

const lf = 10
const cr = 13

/** All line ends of a file are alike, which tells a truncated last line. */
export type LineEnd = 'lf' | 'crlf' | 'cr'

/** The line end that begins at `at`; null where there is none. */
export const lineEndAt = (bytes: Uint8Array, at: number): LineEnd | null => {
  if (bytes[at] === lf) return 'lf'
  if (bytes[at] !== cr) return null
  return bytes[at + 1] === lf ? 'crlf' : 'cr'
}

/** The end of a body that comes in chunks. */
export interface Tail {
  add(chunk: Uint8Array): void
  /** Whether the last line ended as one of the others did. A cut leaves nothing, or the first half of a CRLF; never one kind for another. */
  endsAs(other: LineEnd | null): boolean
}

/** What is kept of the end of a file. */
export const createTail = (): Tail => {
  let last = -1
  return {
    add: (chunk) => {
      last = chunk.at(-1) ?? last
    },
    endsAs: (other) => last === lf || (last === cr && other === 'cr'),
  }
}
