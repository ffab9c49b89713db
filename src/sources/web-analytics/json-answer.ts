// An answer of the service as JSON.
import { z } from 'zod'
import { isEtlError } from '../../core/errors.ts'
import { parseJson, parsePage, type RecordPage } from '../../extract/http-answer.ts'
import type { HttpAnswer } from '../../extract/http-types.ts'
import { addressSetting } from './settings.ts'

/** Throws BAD_RESPONSE naming the endpoint and what came instead. */
export const jsonOf = (answer: HttpAnswer, endpoint: string): unknown => parseJson(answer, endpoint, addressSetting)

/**
 * The same of a page whose records stand in `list`; null: it is whole and no JSON, and may have been paid for. The page of a proxy is thrown as it is, half a
 * page or nothing with that fault.
 */
export const pageOf = (answer: HttpAnswer, endpoint: string, list: string): RecordPage | null => {
  try {
    return parsePage(answer, endpoint, addressSetting, list)
  } catch (error) {
    const begin = answer.bytes.toString('utf8', 0, 100).trim()
    if (!isEtlError(error) || begin.startsWith('<')) throw error
    if (begin !== '' && error.code === 'BAD_RESPONSE') return null
    throw error.with(error.message, { fault: begin === '' ? 'nothing came' : 'half a page came' })
  }
}

const version = z.union([z.string(), z.number()]).transform(String).pipe(z.string().trim().min(1).max(100)).nullish().catch(null)
/** No fact names a field for it: these say of themselves that they are not the version of the API. */
const versions = z.object({
  data_version: version,
  method_version: version,
  methodology_version: version,
  algorithm_version: version,
})

/** The version of the data or of their method, in `meta` or beside it; null: none is named. */
export const dataVersionIn = (body: Readonly<Record<string, unknown>>): string | null =>
  [body['meta'], body].flatMap((part) => Object.values(versions.safeParse(part).data ?? {})).find((one) => one != null) ?? null

/** A number, also written as text; null: it is none, or beyond what a column or a sum of them holds. */
export const numberOrNull = (value: unknown): number | null => {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  return typeof number === 'number' && Math.abs(number) <= Number.MAX_SAFE_INTEGER ? number : null
}

/** Credits as the service writes them; null: none are named; NaN: it is no number, which tells nothing. */
export const creditsIn = (value: unknown): number | null =>
  value === undefined || value === null ? null : (numberOrNull(value) ?? Number.NaN)
