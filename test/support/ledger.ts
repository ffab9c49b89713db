// Units and runs in a real ledger, for tests of its transitions.
import { sql } from 'kysely'
import type { Unit, UnitState } from '../../src/core/types.ts'
import { registerUnits } from '../../src/ledger/register.ts'
import { startRun } from '../../src/ledger/runs.ts'
import { type ClaimedUnit, claimUnit } from '../../src/ledger/units.ts'
import type { TestDatabase } from './postgres.ts'

export const unitNamed = (name: string): Unit => ({
  key: `traffic/v1/2026-01/domain=${name}`,
  pipeline: 'traffic',
  version: 1,
  window: { from: '2026-01-01', to: '2026-02-01' },
  slice: { domain: name },
})

export const newRun = (db: TestDatabase): Promise<number> => startRun(db.database.kysely, { command: 'run', arguments: {} })

/** A unit of that name, planned for `runId`. */
export const planned = async (
  db: TestDatabase,
  runId: number,
  name: string,
  how: { newEdition?: boolean; forced?: boolean } = {},
): Promise<number> => {
  const [unit] = await registerUnits(db.database.kysely, runId, [
    { unit: unitNamed(name), newEdition: how.newEdition ?? true, forced: how.forced ?? false },
  ])
  if (unit === undefined) throw new Error('not registered')
  return unit.unitId
}

const always = sql<boolean>`true`

export const tryClaim = (db: TestDatabase, runId: number, unitId: number, owner = 'one:1'): Promise<ClaimedUnit | null> =>
  claimUnit(db.database.kysely, unitId, { owner, leaseMs: 30_000, runId, holds: always })

export const claimed = async (db: TestDatabase, runId: number, unitId: number, owner?: string): Promise<ClaimedUnit> => {
  const claim = await tryClaim(db, runId, unitId, owner)
  if (claim === null) throw new Error(`unit ${unitId} cannot be claimed`)
  return claim
}

export interface UnitRow {
  readonly state: UnitState
  readonly edition: number
  readonly attempts: number
  readonly fence: string
  readonly lease_owner: string | null
  readonly lease_until: string | null
  readonly not_before: string | null
  readonly error_code: string | null
  readonly error_message: string | null
  readonly released: boolean
  readonly forced: boolean
  readonly run_id: string | null
  readonly landing: string | null
  readonly landing_sha256: string | null
  readonly landing_bytes: string | null
  readonly loaded_at: string | null
  readonly loaded_edition: number | null
  readonly loaded_load_id: string | null
  readonly loaded_rows: string | null
  readonly loaded_sha256: string | null
  readonly loaded_landing: string | null
  readonly source_last_updated: string | null
  readonly source_count: string | null
  readonly checked_at: string | null
}

export const unitRow = async (db: TestDatabase, unitId: number): Promise<UnitRow> => {
  const { rows } = await db.database.pool.query<UnitRow>('select * from etl.units where unit_id = $1', [unitId])
  if (rows[0] === undefined) throw new Error(`no unit ${unitId}`)
  return rows[0]
}

/** Everything the ledger holds, for comparisons of before and after. */
export const wholeLedger = async (db: TestDatabase): Promise<Readonly<Record<string, unknown>>> => {
  const contents: Record<string, unknown> = {}
  for (const table of ['runs', 'units', 'run_units', 'reports', 'requests', 'loads', 'quarantine', 'events'])
    contents[table] = (
      await db.database.pool.query(`select to_jsonb(t) as row from etl.${table} t order by to_jsonb(t)::text`)
    ).rows
  return contents
}

export const outcomeOf = async (db: TestDatabase, runId: number, unitId: number): Promise<string | null> => {
  const { rows } = await db.database.pool.query<{ outcome: string | null }>(
    'select outcome from etl.run_units where run_id = $1 and unit_id = $2',
    [runId, unitId],
  )
  return rows[0]?.outcome ?? null
}
