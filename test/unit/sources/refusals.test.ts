// What the service says when it refuses, in its own words (api-facts A 7 to 11, G 53 to 71, by number), and what each means for the unit, the account and the next step.
import { describe, expect, test } from 'vitest'
import {
  consequences,
  type Meaning,
  meaningOf,
  type Place,
  readRefusal,
} from '../../../src/sources/web-analytics/refusal-table.ts'

const coded = (code: string, error_message: string, more: object = {}): string =>
  JSON.stringify({ error: { code, error_message }, ...more })
const meta = (error_message: string, error_code?: number): string =>
  JSON.stringify({ meta: { status: 'Error', error_code, error_message } })
const errors = (...texts: string[]): string => JSON.stringify({ errors: texts })
const gateway = (message: string): string => JSON.stringify({ message })
const proxy = '<HTML><HEAD><TITLE>ERROR: The request could not be satisfied</TITLE></HEAD><BODY>403 ERROR</BODY></HTML>'

const answers: readonly (readonly [fact: string, place: Place, status: number, body: string, meaning: Meaning])[] = [
  ['8', 'rest', 401, meta('Data not found'), 'no data'],
  ['9', 'rest', 401, 'invalid API key', 'key refused'],
  ['10, dates', 'rest', 400, meta('Dates out of range. Data is available from 2020-07-01 to 2026-09-30', 101), 'dates?'],
  ['10, granularity', 'rest', 400, meta('Granularity is not supported', 102), 'wrong everywhere'],
  ['10, country', 'rest', 400, meta('Country is not available', 103), 'plan lacks'],
  ['19', 'batch', 402, errors('Payment required'), 'out of credits'],
  ['59', 'batch', 401, 'invalid API key', 'key refused'],
  ['59', 'free', 401, 'invalid API key', 'key refused'],
  ['60', 'rest', 401, 'Data not found', 'no data'],
  ['60, on batch', 'batch', 401, 'Data not found', 'key refused'],
  ['61', 'rest', 403, meta('Invalid API Key or out of data credits'), 'key or credits?'],
  ['61, on batch', 'batch', 403, errors('Invalid API Key or out of data credits'), 'key or credits?'],
  ['61, at what is free', 'free', 403, meta('Invalid API Key or out of data credits'), 'key refused'],
  [
    '62, release 06',
    'batch',
    403,
    coded('FORBIDDEN_ERROR', 'Access denied. The user might be missing the required claims'),
    'plan lacks',
  ],
  [
    '62, release 08',
    'rest',
    403,
    coded('FORBIDDEN_ERROR', 'Access forbidden. Upgrade your account.', { actions: ['Contact your account manager'] }),
    'plan lacks',
  ],
  ['62 and 68, a price', 'batch', 400, errors('Access forbidden. Upgrade your account.'), 'plan lacks'],
  ['62, words of tomorrow', 'batch', 403, coded('FORBIDDEN_ERROR', 'No key for you'), 'plan lacks'],
  ['62, in other letters', 'rest', 403, coded('forbidden_error', 'No key for you'), 'plan lacks'],
  ['62, not nested', 'batch', 403, JSON.stringify({ code: 'FORBIDDEN_ERROR', message: 'No key for you' }), 'plan lacks'],
  ['62, in a list', 'batch', 403, JSON.stringify({ errors: [{ code: 'FORBIDDEN_ERROR', message: 'Sorry.' }] }), 'plan lacks'],
  ['63', 'rest', 400, coded('VALIDATION_ERROR', 'Dates not in range'), 'dates?'],
  ['64, in a list', 'rest', 400, JSON.stringify({ errors: [{ code: 101, message: '' }] }), 'dates?'],
  ['65, no data of a country', 'rest', 404, meta('no data for requested country'), 'plan lacks'],
  ['60, not of a country', 'rest', 404, meta('No data for this domain and country'), 'no data'],
  ['63, on batch', 'batch', 400, coded('VALIDATION_ERROR', 'Dates not in range'), 'dates?'],
  ...['no data for requested country', 'country not available', 'country not covered', 'no coverage for country'].map(
    (text) => ['65', 'rest', 400, coded('VALIDATION_ERROR', text), 'plan lacks'] as const,
  ),
  [
    '66',
    'batch',
    400,
    errors('Historical data for monthly granularity is available as of 2020-07. You have requested 2019-12.'),
    'before history',
  ],
  ['66, older', 'batch', 400, errors('Data is available as of - 2018-07. You have requested - 2017-01'), 'before history'],
  [
    '66, of the newest',
    'batch',
    400,
    errors('Historical data for monthly granularity is available until 2026-09. You have requested 2026-10.'),
    'dates?',
  ],
  ['66, no word of dates', 'batch', 400, errors('This table is available through the enterprise plan.'), 'bad request'],
  ['66, nor of a size', 'batch', 400, errors('Filters are available up to 2000 domains.'), 'bad request'],
  ['67', 'batch', 400, errors('supports only an interval of 3 month(s) of data'), 'span too long'],
  ['68', 'batch', 400, errors('granularity should be one of the following - daily, weekly, monthly.'), 'wrong everywhere'],
  ['70', 'batch', 400, errors('Metrics are not available in table traffic_and_engagement'), 'wrong everywhere'],
  ['ended table', 'batch', 400, errors('Table marketing_channels is not available'), 'no such table'],
  ['one like it is made', 'batch', 409, errors('an identical report is already being made'), 'path or moment'],
  ['a poll, which has no parameters', 'free', 400, errors('Bad request'), 'path or moment'],
  ['a report that is gone', 'free', 410, errors('Gone'), 'path or moment'],
  ['a page at a bad moment', 'rest', 409, errors('Conflict'), 'path or moment'],
  ['not this way', 'batch', 405, errors('Method Not Allowed'), 'path or moment'],
  ['withdrawn category', 'batch', 400, errors('category_ids: 1234 is not available'), 'bad request'],
  ['71', 'rest', 401, gateway('Unauthorized'), 'key refused'],
  ['71', 'batch', 403, gateway('Forbidden'), 'key refused'],
  ['71, slow', 'rest', 504, gateway('Endpoint request timed out'), 'outage'],
  ['58, of the proxy', 'batch', 403, proxy, 'outage'],
  ['58, of the proxy', 'rest', 403, proxy, 'outage'],
  ['credits', 'batch', 400, errors('Not enough data credits'), 'out of credits'],
  ['no word', 'rest', 401, '', 'key or data?'],
  ['no word', 'batch', 401, '', 'key refused'],
]

describe('what a refusal means', () => {
  test.each(answers)('fact %s, %s: %i %s', (_fact, place, status, body, meaning) => {
    expect(meaningOf(readRefusal({ status, bytes: Buffer.from(body) }), place)).toBe(meaning)
  })

  test('each meaning has one consequence, and waits only for what time brings', () => {
    const waiting = Object.entries(consequences).flatMap(([meaning, { code }]) => (code === 'NOT_PUBLISHED' ? [meaning] : []))
    expect(waiting).toEqual(['not published', 'dates?'])
    expect(consequences['plan lacks']).toMatchObject({ code: 'NO_CAPABILITY', parts: 'values' })
    // Asking for half of it would be refused as well.
    expect([consequences['wrong everywhere'].parts, consequences['path or moment'].parts]).toEqual([null, null])
    expect(consequences['path or moment']).toMatchObject({ code: 'BAD_REQUEST', next: expect.not.stringContaining('definition') })
  })

  test('the reason is read wherever it stands', () => {
    const body = coded('FORBIDDEN_ERROR', 'Access forbidden. Upgrade your account.', { actions: ['Ask your account manager'] })
    expect(readRefusal({ status: 403, bytes: Buffer.from(body) })).toEqual({
      status: 403,
      code: 'FORBIDDEN_ERROR',
      text: 'Access forbidden. Upgrade your account.; Ask your account manager',
    })
  })
})
