// Writes rows to PostgreSQL as a COPY, at the pace at which it takes them.
import { once } from 'node:events'
import { copyInto } from '../db/connect.ts'
import type { Session } from '../db/session.ts'

/** Some rows in PostgreSQL's COPY text format. */
export interface RowsChunk {
  readonly copy: Buffer
  readonly rows: number
}

/**
 * Returns how many rows the server says it wrote. Throws what reading the chunks or writing them throws.
 * @param target quoted name of the table @param columns quoted names in the order of the cells
 */
export const copyRows = async (
  { client }: Pick<Session, 'client'>,
  { target, columns }: { readonly target: string; readonly columns: readonly string[] },
  chunks: AsyncIterable<RowsChunk>,
): Promise<number> => {
  const copy = copyInto(client, `copy ${target} (${columns.map((name) => `"${name}"`).join(', ')}) from stdin`)
  // When a connection dies, only the first error says why.
  let broken: unknown = null
  const finished = new Promise<void>((resolve, reject) => {
    copy.once('finish', resolve)
    copy.once('error', (error) => {
      broken ??= error
      reject(error)
    })
  })
  finished.catch(() => undefined)
  try {
    for await (const chunk of chunks) {
      if (broken !== null) throw broken
      if (!copy.write(chunk.copy)) await Promise.race([once(copy, 'drain'), finished])
    }
    if (broken !== null) throw broken
    copy.end()
    await finished
    return copy.rowCount
  } catch (error) {
    if (broken === null) {
      copy.destroy(new Error('the answer was not whole'))
      await finished.catch(() => undefined)
    }
    throw error
  }
}
