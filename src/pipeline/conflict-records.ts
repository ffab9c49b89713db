// Raw records of rows that conflict inside one answer, found again in its landing.
import type { LandingStore } from '../extract/landing.ts'
import type { QuarantineEntry } from '../ledger/quarantine.ts'
import { readRecords } from '../parse/parse.ts'
import type { ParsePlan } from '../parse/plan.ts'

const reason = 'another row of the same answer has the same key and other values'

export interface ConflictRecord extends QuarantineEntry {
  /** Number of the accepted row within the answer, from 1: the `_n` it is staged with. */
  readonly ordinal: number
}

/** Characters kept of each raw record, while they are few and when they are many. */
const longestRaw = 10_000
const shortRaw = 200
const few = 1_000

/** Entries for the n-th accepted rows of the landing, counted over all its parts. */
export const conflictRecords = async (
  store: LandingStore,
  locator: string,
  plan: ParsePlan,
  ordinals: ReadonlySet<number>,
): Promise<readonly ConflictRecord[]> => {
  const landing = await store.open(locator)
  const most = ordinals.size > few ? shortRaw : longestRaw
  const entries: ConflictRecord[] = []
  let before = 0
  for await (const payload of landing.parts()) {
    const wanted = new Set([...ordinals].map((ordinal) => ordinal - before))
    const records = readRecords(payload, plan, wanted)
    let next = await records.next()
    for (; next.done !== true; next = await records.next()) {
      const { ordinal, line, raw } = next.value
      entries.push({ ordinal: before + ordinal, part: payload.part, line, column: null, reason, raw: cut(raw, most) })
    }
    before += next.value
  }
  return entries
}

const cut = (raw: string, most: number): string =>
  raw.length <= most ? raw : `${raw.slice(0, most).toWellFormed()}… (${raw.length} characters)`
