// Whether the service is the one this warehouse's rows came from, found out before anything is bought; and lists of examples, which no real service is asked for.
import { createHash } from 'node:crypto'
import { EtlError } from '../core/errors.ts'
import type { AccountOf } from '../core/source-spec.ts'
import type { Definition } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { isLoopbackHost } from '../extract/download-address.ts'
import type { Connection } from '../extract/http-types.ts'
import { keepOrigin, knownOrigin, type Origin } from '../ledger/origins.ts'
import { type ApiSettings, accountsOf } from './apis.ts'

/** Digits that tell keys apart. */
const digits = 16

/** Where an account of an API is, and a digest of what it proves itself with. */
export const originOf = ({ source: api, account }: AccountOf, { baseUrl, authenticate }: Connection): Origin => {
  const { headers = {}, query = {} } = authenticate({ method: 'GET', endpoint: '', url: baseUrl, idempotent: true })
  const proofs = Object.entries({ ...headers, ...query }).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : value.reveal(),
  ])
  const keySha256 = createHash('sha256').update(JSON.stringify(proofs.sort())).digest('hex').slice(0, digits)
  return { api, account, address: baseUrl.host, keySha256 }
}

const isHere = (address: string): boolean => isLoopbackHost(new URL(`http://${address}`).hostname)

/** A key is rotated, an address moves; both at once, or the sandbox and a service elsewhere, is another service. */
export const isSameService = (known: Origin, now: Origin): boolean =>
  isHere(known.address) === isHere(now.address) && (known.address === now.address || known.keySha256 === now.keySha256)

/** What is wrong with the service; null: nothing. */
export const originTrouble = async (db: Db, now: Origin, addressSetting: string): Promise<string | null> => {
  const known = await knownOrigin(db, now)
  if (known === null || isSameService(known, now)) return null
  const sandbox = isHere(known.address) ? ', a service on this machine such as the sandbox' : ''
  return (
    `The rows that account ${now.account} bought for this warehouse came from ${known.address}${sandbox}; ${addressSetting} names ${now.address} with another key. ` +
    'Rows of two services must not mix: give this one a warehouse of its own (DATABASE_URL, or MILLRACE_HOME for the embedded one). ' +
    'If it is the same service that has moved: `millrace migrate --as moved-service`.'
  )
}

/** Throws CONFIGURATION where an account's rows came from another service; writes down where it is otherwise. */
export const settleOrigins = async (db: Db, settings: ApiSettings, definitions: readonly Definition[]): Promise<void> => {
  const troubles: string[] = []
  for (const { of, definitions: asking } of accountsOf(definitions)) {
    const connection = settings.connection(of)
    const now = originOf(of, connection)
    const found = [await originTrouble(db, now, connection.addressSetting), exampleTrouble(connection, asking)]
    troubles.push(...found.filter((one) => one !== null))
    if (troubles.length === 0) await keepOrigin(db, now)
  }
  if (troubles.length > 0) throw new EtlError('CONFIGURATION', troubles.join('\n'))
}

/** Names that RFC 2606 keeps for examples: no service has data of them. */
const isExample = (value: string): boolean => /(^|\.)example\.(com|net|org)$/.test(value)

/** Lists as they ship, where a service that is not on this machine would be asked for them; null: none. */
export const exampleTrouble = ({ baseUrl }: Pick<Connection, 'baseUrl'>, definitions: readonly Definition[]): string | null => {
  if (isLoopbackHost(baseUrl.hostname)) return null
  const found = definitions.flatMap(({ pipeline, dimensions }) =>
    dimensions
      .filter(({ values }) => values.length > 0 && values.every(isExample))
      .map(({ name, file }) => `${pipeline} (${file ?? name})`),
  )
  return found.length === 0
    ? null
    : `The lists of ${found.join(', ')} hold nothing but examples, which would be bought from ${baseUrl.host}. Write your own values into them, one a line; ` +
        '`millrace init` fills the lists of a new repository.'
}
