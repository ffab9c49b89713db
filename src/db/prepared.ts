// Statements that are sent for every unit: the server parses and plans each once a connection instead of once a unit.
import { createHash } from 'node:crypto'
import type { CompiledQuery, RawBuilder } from 'kysely'
import type { PoolClient } from 'pg'
import { EtlError } from '../core/errors.ts'
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

/** From here on the client sends known texts under their names, and arrays as texts. */
export const sendByName = (client: PoolClient): void => {
  const send = client.query
  const byName = (text: unknown, ...rest: readonly unknown[]): unknown => {
    const [values, ...others] = rest
    if (typeof text !== 'string' || !Array.isArray(values)) return Reflect.apply(send, client, [text, ...rest])
    const [name, sent] = [nameOf(text), values.map(arrayText)]
    return Reflect.apply(send, client, [name === undefined ? { text, values: sent } : { name, text, values: sent }, ...others])
  }
  Object.assign(client, { query: byName })
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

const slotMark = '\u0000slot:'

/** Stands for a value that a template gets later, wherever a value may stand. */
export const slot = (name: string): string => `${slotMark}${name}`

/** By name of the slot; every slot of the statement needs one. */
export type SlotValues = Readonly<Record<string, string | number | null>>

/** Sends the statement with these values in its slots. */
export type Template<Row> = (db: Db, values: SlotValues) => Promise<Row[]>

/** A statement put together once and sent often: putting a long one together takes longer than sending it. */
export const template = <Row>(statement: RawBuilder<Row>): Template<Row> => {
  let compiled: CompiledQuery<Row> | null = null
  return async (db, values) => {
    if (compiled === null) {
      compiled = statement.compile(db)
      remember(compiled.sql)
    }
    const filled = compiled.parameters.map((parameter) => fill(parameter, values))
    return (await db.executeQuery<Row>({ ...compiled, parameters: filled })).rows
  }
}

const fill = (parameter: unknown, values: SlotValues): unknown => {
  if (Array.isArray(parameter)) return parameter.map((one) => fill(one, values))
  if (typeof parameter !== 'string' || !parameter.startsWith(slotMark)) return parameter
  const value = values[parameter.slice(slotMark.length)]
  if (value === undefined) throw new EtlError('INTERNAL', `A statement has no value for ${parameter.slice(slotMark.length)}.`)
  return value
}
