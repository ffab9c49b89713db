// The service speaks in two ways; what differs between them is a file of names each. Units, keys and tables are the same in both.
import type { HttpClient } from '../../extract/http-types.ts'
import { dialectV4 } from './dialect-v4.ts'
import { dialectV5 } from './dialect-v5.ts'
import type { EndpointName } from './endpoints.ts'

export const dialectNames = ['v4', 'v5'] as const
export type DialectName = (typeof dialectNames)[number]

export interface Dialect {
  readonly name: DialectName
  /** null: the service has no such endpoint in this dialect. */
  readonly paths: Readonly<Record<EndpointName, string | null>>
  /** These take the key in the query; all others in a header. */
  readonly keyInQuery: readonly EndpointName[]
  readonly keywords: {
    /** Parameters of the query. */
    readonly parameters: Readonly<Record<'domain' | 'country' | 'from' | 'to' | 'limit' | 'offset', string>>
    /** Where a page holds its records. */
    readonly list: string
    country(code: string): string
    /** A filter's value, which is written as in v4 everywhere else. */
    filter(value: string): string
    /** Fields that are called otherwise than in v4. */
    readonly fields: Readonly<Record<string, string>>
    /** Fields that no record has; they are absent, never 0. */
    readonly lacks: readonly string[]
  }
}

const dialects: Readonly<Record<DialectName, Dialect>> = { v4: dialectV4, v5: dialectV5 }

export const isDialect = (name: string): name is DialectName => Object.hasOwn(dialects, name)

/** @param name of an account or a landing; one that does not say speaks v4 */
export const dialectNamed = (name: string | null | undefined): Dialect =>
  name != null && isDialect(name) ? dialects[name] : dialectV4

/** As the account is asked. */
export const dialectOf = ({ dialect }: Pick<HttpClient, 'dialect'>): Dialect => dialectNamed(dialect)

/** Of an endpoint that each dialect has. */
export const pathOf = (
  http: Pick<HttpClient, 'dialect'>,
  name: 'keywords' | 'shopper' | 'report' | 'status' | 'validate',
): string => dialectOf(http).paths[name] ?? dialectV4.paths[name]
