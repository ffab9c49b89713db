// Raw records of rows that conflict inside one unit, found again in its landing.
import type { QuarantineEntry } from '../ledger/quarantine.ts'
import type { LandingStore } from '../extract/landing.ts'
import { readRecords } from '../parse/parse.ts'
import type { ParsePlan } from '../parse/plan.ts'

const reason = 'another row of the same answer has the same key and other values'

/** Entries for the n-th accepted rows of the landing, counted over all its parts. */
export const conflictRecords = async (
  store: LandingStore,
  locator: string,
  plan: ParsePlan,
  ordinals: ReadonlySet<number>,
): Promise<readonly QuarantineEntry[]> => {
  const landing = await store.open(locator)
  const entries: QuarantineEntry[] = []
  let before = 0
  for await (const payload of landing.parts()) {
    const wanted = new Set([...ordinals].map((ordinal) => ordinal - before))
    const accepted = await collect(payload.part, readRecords(payload, plan, wanted), entries)
    before += accepted
  }
  return entries
}

const collect = async (part: number, records: ReturnType<typeof readRecords>, entries: QuarantineEntry[]): Promise<number> => {
  for (;;) {
    const next = await records.next()
    if (next.done === true) return next.value
    entries.push({ part, line: next.value.line, column: null, reason, raw: next.value.raw })
  }
}
