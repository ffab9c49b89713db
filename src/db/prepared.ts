// Statements that are sent for every unit: the server parses and plans each once a connection instead of once a unit.
import { createHash } from 'node:crypto'
import type { RawBuilder } from 'kysely'
import { arrayText } from './arrays.ts'
import type { Db } from './tables.ts'

interface Known {
  readonly name: string
  sent: number
}

/** A text is known for good, so texts must not hold values. */
const known = new Map<string, Known>()
/** Each costs every connection some memory; what comes after that many is sent as it is. */
const mostNames = 500

const remember = (text: string): void => {
  if (known.size >= mostNames || known.has(text)) return
  known.set(text, { name: `millrace_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`, sent: 0 })
}

/** Sent so often, four times, sixteen times as often, a statement is planned anew: tables grow, and nothing tells the server in time. */
const firstReplan = 64

/** Exported for tests. @param sent how often it was sent before */
export const generationOf = (sent: number): number => (sent < firstReplan ? 0 : 1 + Math.floor(Math.log2(sent / firstReplan) / 2))

const nameOf = (text: string): string | undefined => {
  const found = known.get(text)
  if (found === undefined) return undefined
  const name = `${found.name}_${generationOf(found.sent)}`
  found.sent += 1
  return name
}

/** What a connection is asked to send, with a known text under its name and arrays as texts. @param sent arguments of the driver's `query` */
export const byName = (sent: readonly unknown[]): readonly unknown[] => {
  const [text, values, ...others] = sent
  if (typeof text !== 'string' || !Array.isArray(values)) return sent
  const [name, texts] = [nameOf(text), values.map(arrayText)]
  return [name === undefined ? { text, values: texts } : { name, text, values: texts }, ...others]
}

/**
 * For statements whose best plan does not depend on their values and whose columns are named one by one: a plan that is kept may be for any
 * values, and outlives a change of the tables only with the same columns.
 */
export const executePrepared = async <Row>(db: Db, statement: RawBuilder<Row>): Promise<Row[]> => {
  const compiled = statement.compile(db)
  remember(compiled.sql)
  return (await db.executeQuery<Row>(compiled)).rows
}
