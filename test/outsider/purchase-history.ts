// What the service gave for each unit, purchase by purchase, against the revisions the warehouse tells of.
import type { WorldDatabase } from './databases.ts'
import { cellsOf, isBought, isUsed } from './purchases.ts'
import { reportText, unitOfRow } from './truth.ts'
import { type Revision, revisions } from './warehouse.ts'
import type { Pipeline, World } from './world.ts'

export interface Bought {
  /** For each unit what it was given, oldest first; null: its report had no row for it. */
  readonly given: ReadonlyMap<string, readonly (string | null)[]>
  /** How often the answer to a purchase of the unit was lost. */
  readonly lost: ReadonlyMap<string, number>
  /** Purchases whose answer the program could have and does not. */
  readonly abandoned: readonly string[]
}

/** Reads the sandbox's books; a purchase is lost where the ledger knows that it may have been made, and nobody told its id. */
export const told = async (world: World, pipeline: Pipeline): Promise<Bought> => {
  const { rows } = await world.database.pool.query<{
    report_id: string | null
    landed: boolean
    state: string
    request: unknown
  }>(`select report_id, ${isUsed} as landed, report_state as state, request from etl.jobs j where report_state is not null`)
  const known = new Map(rows.flatMap(({ report_id, landed }) => (report_id === null ? [] : [[report_id, landed] as const])))
  const uncertain = rows
    .filter(({ state, report_id }) => state === 'uncertain' && report_id === null)
    .map(({ request }) => bodyText(request))
  const given = new Map<string, (string | null)[]>()
  const lost = new Map<string, number>()
  const abandoned: string[] = []
  for (const submission of world.sandbox.books().submissions.filter(isBought)) {
    const { id, at, downloads } = submission
    const index = known.has(id) ? -1 : uncertain.indexOf(bodyText(submission.body))
    if (index >= 0) {
      uncertain.splice(index, 1)
      for (const cell of cellsOf(submission)) lost.set(cell, (lost.get(cell) ?? 0) + 1)
      continue
    }
    if (known.get(id) !== true)
      abandoned.push(`report ${id} of ${at} is ${known.has(id) ? 'known, not landed' : 'unknown'} (${downloads} downloads)`)
    const texts = new Map(
      (world.sandbox.truth.sold(id) ?? []).map((row) => [unitOfRow(pipeline, row), reportText(pipeline, row)]),
    )
    for (const cell of cellsOf(submission)) given.set(cell, [...(given.get(cell) ?? []), texts.get(cell) ?? null])
  }
  return { given, lost, abandoned }
}

/** jsonb has an order of its own. */
export const bodyText = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(bodyText).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const parts = Object.entries(value).map(([name, inner]) => `${name}:${bodyText(inner)}`)
  return `{${parts.sort().join()}}`
}

/** Units that do not hold their newest answer, and revisions that were never given, or not in that order. */
export const untruths = async (pool: WorldDatabase['pool'], pipeline: Pipeline, { given }: Bought): Promise<string[]> => {
  const held = await revisions(pool, pipeline)
  const units = new Set([...held.keys(), ...given.keys()])
  return [...units].flatMap((unit) => {
    const answers = given.get(unit) ?? []
    const own: readonly Revision[] = held.get(unit) ?? []
    const current = own.filter(({ isCurrent }) => isCurrent)
    const newest = answers.at(-1) ?? null
    const wrong: string[] = []
    if (current.length > 1) wrong.push(`${unit} has ${current.length} current rows`)
    if ((current[0]?.text ?? null) !== newest)
      wrong.push(`${unit} holds ${current[0]?.text ?? 'no row'}, its newest answer ${newest ?? 'has none'}`)
    if (!isWithin(own, answers))
      wrong.push(`${unit} has had ${own.map(({ text }) => text).join(' then ')}; it was given ${answers.join(' then ')}`)
    return wrong
  })
}

/** Whether the revisions come in the order in which the answers came, each from an answer of its own. */
const isWithin = (own: readonly Revision[], answers: readonly (string | null)[]): boolean => {
  let at = 0
  for (const { text } of own) {
    const found = answers.indexOf(text, at)
    if (found < 0) return false
    at = found + 1
  }
  return true
}
