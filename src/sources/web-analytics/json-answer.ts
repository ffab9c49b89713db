// An answer of the service as JSON.
import { parseJson, parsePage, type RecordPage } from '../../extract/http-answer.ts'
import type { HttpAnswer } from '../../extract/http-types.ts'
import { addressSetting } from './settings.ts'

/** Throws BAD_RESPONSE naming the endpoint and what came instead. */
export const jsonOf = (answer: HttpAnswer, endpoint: string): unknown => parseJson(answer, endpoint, addressSetting)

/** The same of a page whose records stand in `list`. */
export const pageOf = (answer: HttpAnswer, endpoint: string, list: string): RecordPage =>
  parsePage(answer, endpoint, addressSetting, list)
