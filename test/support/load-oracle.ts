// What loading must come to, worked out row by row in memory: the rules of issue "One ledger", without the database's ways to be quick.

/** A day's record of a unit. */
export interface OracleRecord {
  readonly domain: string
  readonly month: string
  readonly day: number
  readonly visits: number
  /** `cell`: a value is none, the key can be read. `stray`: nobody can tell whose it is. */
  readonly bad: 'cell' | 'stray' | null
}

export interface OracleAnswer {
  readonly name: string
  readonly ask: number
  readonly units: readonly string[]
  readonly records: readonly OracleRecord[]
}

interface Row {
  readonly visits: number
  readonly revision: number
}

interface UnitState {
  rows: Map<string, Row>
  /** Ended revisions: key, visits, revision. */
  past: string[]
  answer: OracleAnswer | null
  held: { readonly answer: OracleAnswer; readonly code: string } | null
}

export interface Oracle {
  readonly units: Map<string, UnitState>
  /** `answer unit line`, the unit of a stray is `-`. */
  readonly quarantine: Set<string>
}

export interface OracleLoad {
  /** Which of its units; default all. */
  readonly only?: readonly string[]
  readonly released?: boolean
  /** The cells that were bad can be read now. */
  readonly mended?: boolean
}

export const unitOf = ({ month, domain }: Pick<OracleRecord, 'month' | 'domain'>): string => `${month} ${domain}`
const keyOf = ({ month, domain, day }: OracleRecord): string => `${month}-${String(day).padStart(2, '0')} ${domain}`

export const newOracle = (units: readonly string[]): Oracle => ({
  units: new Map(units.map((unit) => [unit, { rows: new Map(), past: [], answer: null, held: null }])),
  quarantine: new Set(),
})

const shrink = 0.5

interface Numbered extends OracleRecord {
  readonly line: number
}

/** Records of a unit: good ones by key, and those that cannot be loaded. */
const sorted = (records: readonly Numbered[]): { good: Map<string, Numbered>; refused: Numbered[] } => {
  const good = new Map<string, Numbered>()
  const byKey = Map.groupBy(
    records.filter(({ bad }) => bad === null),
    keyOf,
  )
  const refused = records.filter(({ bad }) => bad === 'cell')
  for (const [key, same] of byKey) {
    const [first] = same
    if (first === undefined) continue
    if (same.every(({ visits }) => visits === first.visits)) good.set(key, first)
    else refused.push(...same)
  }
  return { good, refused }
}

export const loadIntoOracle = (
  oracle: Oracle,
  answer: OracleAnswer,
  { only = answer.units, released = false, mended = false }: OracleLoad = {},
): void => {
  const records = answer.records.map(
    (record, index): Numbered => ({ ...record, bad: mended && record.bad === 'cell' ? null : record.bad, line: index + 2 }),
  )
  const unreadable = records.filter(({ bad }) => bad === 'stray')
  const mayEnd = unreadable.length === 0
  // Whatever came for one unit alone is that unit's, readable or not.
  const strays = answer.units.length === 1 ? [] : unreadable
  const owned = answer.units.length === 1 ? unreadable : []
  let isAnyLoaded = false
  for (const name of [...only].sort()) {
    const unit = oracle.units.get(name)
    if (unit === undefined || (unit.answer !== null && unit.answer.ask > answer.ask)) continue
    const { good, refused: known } = sorted(records.filter((record) => record.bad !== 'stray' && unitOf(record) === name))
    const refused = [...known, ...owned]
    const code = released ? null : heldCode(unit.rows.size, good.size, refused.length)
    const mine = refused.map(({ line }) => `${answer.name} ${name} ${line}`)
    if (code === null) {
      apply(unit, good, new Set(known.map(keyOf)), mayEnd)
      unit.answer = answer
      if (unit.held !== null && unit.held.answer.ask <= answer.ask) unit.held = null
      for (const entry of oracle.quarantine) if (entry.includes(` ${name} `)) oracle.quarantine.delete(entry)
      isAnyLoaded = true
    } else {
      if (unit.held === null || unit.held.answer.ask <= answer.ask) unit.held = { answer, code }
      if (mine.length > 0)
        for (const entry of oracle.quarantine) if (entry.startsWith(`${answer.name} ${name} `)) oracle.quarantine.delete(entry)
    }
    for (const entry of mine) oracle.quarantine.add(entry)
  }
  if (isAnyLoaded) for (const { line } of strays) oracle.quarantine.add(`${answer.name} - ${line}`)
  forgetReplaced(oracle)
}

const heldCode = (previous: number, rows: number, refused: number): string | null => {
  if (rows === 0 && refused > 0) return 'TOO_MANY_REJECTS'
  if (previous === 0) return null
  return rows === 0 || previous - rows - refused > shrink * previous ? 'SHRUNK' : null
}

const apply = (unit: UnitState, good: ReadonlyMap<string, Numbered>, refused: ReadonlySet<string>, mayEnd: boolean): void => {
  const last = (key: string): number =>
    Math.max(0, ...unit.past.filter((ended) => ended.startsWith(`${key} `)).map((ended) => Number(ended.split(' r')[1])))
  for (const [key, { visits }] of good) {
    const old = unit.rows.get(key)
    if (old?.visits === visits) continue
    if (old !== undefined) unit.past.push(`${key} ${old.visits} r${old.revision}`)
    unit.rows.set(key, { visits, revision: (old?.revision ?? last(key)) + 1 })
  }
  for (const [key, old] of unit.rows) {
    if (good.has(key) || refused.has(key) || !mayEnd) continue
    unit.past.push(`${key} ${old.visits} r${old.revision}`)
    unit.rows.delete(key)
  }
}

/** Strays of answers that no unit holds or waits for. */
const forgetReplaced = ({ units, quarantine }: Oracle): void => {
  const living = new Set([...units.values()].flatMap(({ answer, held }) => [answer?.name, held?.answer.name]))
  for (const entry of quarantine) {
    const [name = '', unit] = entry.split(' ')
    if (unit === '-' && !living.has(name)) quarantine.delete(entry)
  }
}

/** Everything that can be compared. */
export const shown = ({ units, quarantine }: Oracle) => ({
  rows: [...units.values()]
    .flatMap(({ rows }) => [...rows].map(([key, { visits, revision }]) => `${key} ${visits} r${revision}`))
    .sort(),
  past: [...units.values()].flatMap(({ past }) => past).sort(),
  units: [...units]
    .map(
      ([name, { answer, held }]) =>
        `${name}: ${answer?.name ?? '-'}${held === null ? '' : ` held ${held.answer.name} ${held.code}`}`,
    )
    .sort(),
  quarantine: [...quarantine].sort(),
})
