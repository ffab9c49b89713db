// What loading must come to, worked out row by row in memory: the rules of units, without the database's ways to be quick.

/** A day's record of a unit. */
export interface OracleRecord {
  readonly domain: string
  readonly month: string
  readonly day: number
  readonly visits: number
  /** `cell`: a value is none, the key can be read. `stray`: its month can be told alone. `undated`: its domain alone. */
  readonly bad: 'cell' | 'stray' | 'undated' | null
}

export interface OracleAnswer {
  readonly name: string
  readonly ask: number
  readonly units: readonly string[]
  readonly records: readonly OracleRecord[]
  /** As long as it is said to be, on which the way into the tables depends. */
  readonly bytes: number
}

interface Row {
  readonly visits: number
  readonly revision: number
  /** The unit whose number it bears; `-`: none. */
  readonly of: string
}

interface UnitState {
  /** By key, whatever number they bear. */
  rows: Map<string, Row>
  /** Ended revisions. */
  past: string[]
  answer: OracleAnswer | null
  held: { readonly answer: OracleAnswer; readonly code: string } | null
}

export interface Oracle {
  readonly units: Map<string, UnitState>
  /** `answer unit line`, the unit of a stray is `-`. */
  readonly quarantine: Set<string>
  /** `answer unit`: a person released the answer although a test holds the unit. */
  readonly released: Set<string>
  /** Entries of quarantine that may be there or not: rows that conflict are looked for only where something depends on it. */
  readonly unsure: Set<string>
}

export interface OracleLoad {
  /** Which of its units; default all. */
  readonly only?: readonly string[]
  readonly released?: boolean
  /** The cells that were bad can be read now. */
  readonly mended?: boolean
}

/** What somebody does to the table. `number`: of the unit that the row shall bear. */
export type OracleHand =
  | { readonly what: 'change' | 'delete'; readonly unit: string; readonly day: number }
  | { readonly what: 'put'; readonly unit: string; readonly day: number; readonly number: string }

export const unitOf = ({ month, domain }: Pick<OracleRecord, 'month' | 'domain'>): string => `${month} ${domain}`
const keyOf = ({ month, domain, day }: Pick<OracleRecord, 'month' | 'domain' | 'day'>): string =>
  `${month}-${String(day).padStart(2, '0')} ${domain}`

/** Nothing in it is of what it was asked for: the answer to another request, which is refused as a whole and changes nothing. */
export const isAnothers = ({ records }: OracleAnswer): boolean =>
  records.length > 0 && records.every(({ bad }) => bad === 'stray')

export const newOracle = (units: readonly string[]): Oracle => ({
  units: new Map(units.map((unit) => [unit, { rows: new Map(), past: [], answer: null, held: null }])),
  quarantine: new Set(),
  released: new Set(),
  unsure: new Set(),
})

const shrink = 0.5
/** A test holds a unit that has a row with more visits. */
export const mostVisits = 50
/** What somebody writes by hand. */
export const handVisits = 7

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

const isUnknown = ({ bad }: OracleRecord): boolean => bad === 'stray' || bad === 'undated'

const mayBeOf = ({ bad, month, domain }: OracleRecord, unit: string): boolean =>
  bad === 'stray' ? unit.startsWith(`${month} `) : unit.endsWith(` ${domain}`)

interface Came {
  readonly good: ReadonlyMap<string, Numbered>
  /** Records of the unit that cannot be loaded. */
  readonly refused: readonly Numbered[]
  /** null: it takes the answer. */
  readonly code: string | null
}

export const loadIntoOracle = (
  oracle: Oracle,
  answer: OracleAnswer,
  { only = answer.units, released = false, mended = false }: OracleLoad = {},
): void => {
  const { units, quarantine } = oracle
  const records = answer.records.map(
    (record, index): Numbered => ({ ...record, bad: mended && record.bad === 'cell' ? null : record.bad, line: index + 2 }),
  )
  const unreadable = records.filter(isUnknown)
  // Whatever came for one unit alone is that unit's, readable or not.
  const owned = answer.units.length === 1 ? unreadable : []
  const names = [...only].sort()
  const isSkipped = (name: string): boolean => (units.get(name)?.answer?.ask ?? 0) > answer.ask
  const scope = names.flatMap((name) => [...(units.get(name)?.rows ?? [])])
  const came = new Map(
    names.map((name): [string, Came | null] => {
      if (isSkipped(name)) return [name, null]
      const { good, refused: known } = sorted(records.filter((record) => !isUnknown(record) && unitOf(record) === name))
      const refused = [...known, ...owned]
      const previous = scope.filter(([, row]) => row.of === name).length
      const fails = [...good.values()].some(({ visits }) => visits > mostVisits)
      const isReleased = released || oracle.released.has(`${answer.name} ${name}`)
      if (fails && isReleased) oracle.released.add(`${answer.name} ${name}`)
      else oracle.released.delete(`${answer.name} ${name}`)
      const code =
        fails && !isReleased
          ? 'TEST_FAILED'
          : released
            ? null
            : heldCode(
                previous,
                good.size,
                refused.length,
                unreadable.some((record) => mayBeOf(record, name)),
              )
      return [name, { good, refused, code }]
    }),
  )
  const keeps = new Set(names.filter((name) => came.get(name)?.code !== null))
  if (keeps.size < names.length)
    for (const name of names) change(units.get(name), came.get(name) ?? null, { name, keeps, mayEnd: unreadable.length === 0 })
  for (const [name, one] of came) {
    const unit = units.get(name)
    if (unit === undefined || one === null) {
      oracle.released.delete(`${answer.name} ${name}`)
      continue
    }
    const isNewest = unit.held === null || unit.held.answer.ask <= answer.ask
    if (one.code === null) unit.answer = answer
    if (isNewest) unit.held = one.code === null ? null : { answer, code: one.code }
    const mine = one.refused.map(({ line }) => `${answer.name} ${name} ${line}`)
    if (one.code === 'SHRUNK')
      for (const { bad, line } of one.refused) if (bad === null) oracle.unsure.add(`${answer.name} ${name} ${line}`)
    const gone = one.code === null ? ` ${name} ` : mine.length > 0 ? `${answer.name} ${name} ` : null
    if (gone !== null) for (const entry of quarantine) if (entry.includes(gone)) quarantine.delete(entry)
    for (const entry of mine) quarantine.add(entry)
  }
  if ([...came.values()].some((one) => one !== null) && answer.units.length > 1)
    for (const { line } of unreadable) quarantine.add(`${answer.name} - ${line}`)
  forgetReplaced(oracle, names)
}

/** @param hasStray a record that may be of the unit, for which nothing came */
const heldCode = (previous: number, rows: number, refused: number, hasStray: boolean): string | null => {
  if (rows === 0 && (refused > 0 || (previous === 0 && hasStray))) return 'TOO_MANY_REJECTS'
  if (previous === 0) return null
  return rows === 0 || previous - rows - refused > shrink * previous ? 'SHRUNK' : null
}

const told = (key: string, { visits, revision, of }: Row): string => `${key} ${visits} r${revision} of ${of}`

/** @param keeps units that keep their rows: what bears their numbers does not end */
const change = (
  unit: UnitState | undefined,
  came: Came | null,
  { name, keeps, mayEnd }: { readonly name: string; readonly keeps: ReadonlySet<string>; readonly mayEnd: boolean },
): void => {
  if (unit === undefined) return
  const last = (key: string): number =>
    Math.max(
      0,
      ...unit.past.filter((ended) => ended.startsWith(`${key} `)).map((ended) => Number.parseInt(ended.split(' r')[1] ?? '', 10)),
    )
  const refused = new Set(came?.refused.map(keyOf))
  const good = came?.code === null ? came.good : new Map<string, Numbered>()
  for (const [key, { visits }] of good) {
    const old = unit.rows.get(key)
    if (old?.visits === visits && old.of === name) continue
    if (old !== undefined) unit.past.push(told(key, old))
    unit.rows.set(key, { visits, revision: (old?.revision ?? last(key)) + 1, of: name })
  }
  for (const [key, old] of unit.rows) {
    if (good.has(key) || refused.has(key) || !mayEnd || keeps.has(old.of)) continue
    unit.past.push(told(key, old))
    unit.rows.delete(key)
  }
}

/** Strays of answers that no unit holds or waits for, and what was said of such. */
const forgetReplaced = ({ units, quarantine, released }: Oracle, names: readonly string[]): void => {
  const living = new Set([...units.values()].flatMap(({ answer, held }) => [answer?.name, held?.answer.name]))
  for (const entry of quarantine) {
    const [name = '', unit] = entry.split(' ')
    if (unit === '-' && !living.has(name)) quarantine.delete(entry)
  }
  for (const name of names) {
    const { answer = null, held = null } = units.get(name) ?? {}
    for (const entry of released)
      if (entry.endsWith(` ${name}`) && ![answer?.name, held?.answer.name].includes(entry.split(' ')[0])) released.delete(entry)
  }
}

/** False: there is no such row, or already one. */
export const changeByHand = ({ units }: Oracle, hand: OracleHand): boolean => {
  const [month = '', domain = ''] = hand.unit.split(' ')
  const key = keyOf({ month, domain, day: hand.day })
  const unit = units.get(hand.unit)
  const old = unit?.rows.get(key)
  if (unit === undefined || (old === undefined) !== (hand.what === 'put')) return false
  if (hand.what === 'delete') unit.rows.delete(key)
  else if (old !== undefined) unit.rows.set(key, { ...old, visits: handVisits })
  // A revision that has ended is not begun again.
  else if (hand.what !== 'put' || unit.past.some((ended) => ended.startsWith(`${key} `))) return false
  else unit.rows.set(key, { visits: handVisits, revision: 1, of: hand.number })
  return true
}

/** Everything that can be compared. */
export const shown = ({ units, quarantine, unsure }: Oracle) => ({
  rows: [...units.values()].flatMap(({ rows }) => [...rows].map(([key, row]) => told(key, row))).sort(),
  past: [...units.values()].flatMap(({ past }) => past).sort(),
  units: [...units]
    .map(
      ([name, { answer, held }]) =>
        `${name}: ${answer?.name ?? '-'}${held === null ? '' : ` held ${held.answer.name} ${held.code}`}`,
    )
    .sort(),
  quarantine: [...quarantine.difference(unsure)].sort(),
})
