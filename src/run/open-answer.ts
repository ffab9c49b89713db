// Reads an answer back from its landing, after its manifest was compared with the ledger's record: bytes of another warehouse are refused by name.
import { EtlError } from '../core/errors.ts'
import type { Manifest } from '../extract/landing-files.ts'
import type { Landing } from '../extract/landing-reader.ts'
import { shaOnRecord } from '../ledger/answers.ts'
import type { KeptAnswer } from '../ledger/register-replay.ts'
import { ownNames } from '../ledger/warehouse.ts'
import type { Runtime } from './runtime.ts'

/** What the ledger records of a whole landing, except for its request. */
export const answerIn = (
  locator: string,
  { sha256, bytes, completeness }: Pick<Manifest, 'sha256' | 'bytes' | 'completeness'>,
) => ({
  ...{ locator, sha256, bytes, fingerprint: completeness.fingerprint, dataPoints: completeness.dataPoints },
  ...{ order: completeness.order ?? null, dialect: completeness.dialect ?? null },
})

/** Throws LANDING_MISSING, LANDING_CORRUPT, and LANDING_FOREIGN where the landing has other bytes than the ledger has on record. */
export const openAnswer = async (
  { landing, database }: Pick<Runtime, 'landing' | 'database'>,
  { answerId, landing: locator }: KeptAnswer,
  signal?: AbortSignal,
): Promise<Landing> => {
  const opened = await landing.open(locator, signal)
  const { manifest } = opened
  const names = await ownNames(database.kysely)
  // Of any epoch: another copy of this warehouse may have bought what this one has adopted. The checksum proves that it is this answer.
  const isOurs = names.some(({ id }) => id === manifest.warehouse)
  const by = shown({ id: manifest.warehouse, epoch: manifest.epoch })
  if (!isOurs) throw foreign(landing.place, locator, `it was landed by ${by}, this is ${names.map(shown).join(', formerly ')}`)
  const sha256 = await shaOnRecord(database.kysely, answerId)
  if (sha256 !== manifest.sha256)
    throw foreign(landing.place, locator, `its SHA-256 is ${manifest.sha256}, answer ${answerId} has ${sha256} on record`)
  return opened
}

const shown = ({ id, epoch }: { readonly id: string; readonly epoch: number }): string => `warehouse ${id}, epoch ${epoch}`

const foreign = (place: string, locator: string, found: string): EtlError =>
  new EtlError(
    'LANDING_FOREIGN',
    `${place}: ${locator} is not the answer this warehouse has on record: ${found}. Nothing of it is loaded. Restore the landing from a backup, ` +
      'or load the unit again with `millrace backfill … --force`.',
  )
