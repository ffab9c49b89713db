// Traces reach a collector as run > unit > request, parse and load, and lineage as OpenLineage events; both hold no secret, and change nothing when the collector is away.
import { execFileSync } from 'node:child_process'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { createLineage } from '../../src/run/lineage.ts'
import { shippedDefinitions } from '../support/definitions.ts'
import { type Listening, listen } from '../support/listen.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const key = 'trace-key-0123456789'
const collectorToken = 'collector-token-0123456789'

interface Span {
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[]
}

const world = sandboxWorld({ each: true, lists: { domains: ['a.com'] }, sandbox: { apiKey: key } })
const { db } = world
let collector: Listening

let bodies: string[] = []
let authorizations: (string | undefined)[] = []

beforeEach(async () => {
  bodies = []
  authorizations = []
  collector = await listen((request, response, body) => {
    authorizations.push(request.headers.authorization)
    bodies.push(body)
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
})
afterEach(() => collector.close())

const backfill = (extra: Readonly<Record<string, string>>) =>
  world.start(['backfill', 'keywords', '--from', '2026-09', '--to', '2026-09', '--only', 'country=us', '--json'], {
    OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer ${collectorToken}`,
    ...extra,
  }).result

test('a run is traced down to its requests, without the key', async () => {
  const result = await succeeded(
    backfill({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=test',
    }),
  )
  const all = bodies.join('\n')
  expect(all).toContain('deployment.environment')
  const spans = bodies.flatMap((body) => {
    const batch = JSON.parse(body) as { resourceSpans: { scopeSpans: { spans: Span[] }[] }[] }
    return batch.resourceSpans.flatMap((resource) => resource.scopeSpans.flatMap((scope) => scope.spans))
  })
  const named = (name: string) => spans.filter((span) => span.name === name)
  const [run] = named('run')
  const [job] = named('job')
  expect(job?.parentSpanId).toBe(run?.spanId)
  for (const name of ['request', 'parse', 'load']) {
    expect(named(name).length, name).toBeGreaterThan(0)
    for (const span of named(name)) expect(spans.map(({ spanId }) => spanId)).toContain(span.parentSpanId)
  }
  expect(authorizations).toContain(`Bearer ${collectorToken}`)
  for (const text of [all, result.stdout, result.stderr]) {
    expect(text).not.toContain(key)
    expect(text).not.toContain(collectorToken)
  }
})

test('a collector that is away changes nothing but a word on standard error', async () => {
  await succeeded(backfill({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_EXPORTER_OTLP_TIMEOUT: '500' }))
  expect(await db.query(`select count(*)::int as n from etl.unit_list where state = 'loaded'`)).toEqual([{ n: 1 }])
})

test('headers that cannot be read change nothing but a word on standard error', async () => {
  const headers = 'authorization=Basic 100%'
  const { stderr } = await succeeded(
    backfill({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_HEADERS: headers }),
  )
  expect(stderr).toContain(
    "no traces are sent. OTEL_EXPORTER_OTLP_HEADERS has a '%' without two hex digits behind it; write it as %25.",
  )
  expect(bodies).toEqual([])
})

test('the log names run, job and request in every line about them', async () => {
  const { stderr } = await backfill({ MILLRACE_LOG_LEVEL: 'debug' })
  const lines = stderr
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line): Record<string, unknown> => JSON.parse(line))
  const [request] = lines.filter((line) => line['msg'] === 'request')
  expect(request).toMatchObject({
    run_id: 1,
    job_id: 1,
    request_id: expect.stringMatching(/^1-\d+-1$/),
    method: 'GET',
    status: 200,
  })
  expect(lines.find((line) => line['msg'] === 'job done')).toMatchObject({ run_id: 1, job_id: 1, units: 1, state: 'loaded' })
})

test('nothing is sent unless it is asked for', async () => {
  for (const extra of [{}, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_SDK_DISABLED: 'true' }]) {
    await succeeded(backfill(extra))
    expect(bodies).toEqual([])
  }
})

interface LineageEvent {
  readonly eventType: string
  readonly eventTime: string
  readonly producer: string
  readonly schemaURL: string
  readonly run: { readonly runId: string }
  readonly job: { readonly namespace: string; readonly name: string }
  readonly outputs: readonly {
    readonly name: string
    readonly facets: {
      readonly schema: {
        readonly _producer: string
        readonly _schemaURL: string
        readonly fields: { name: string; type: string }[]
      }
    }
    readonly outputFacets?: { readonly outputStatistics: { readonly rowCount: number } }
  }[]
}

test('a run is told as OpenLineage events: a start and an end of one id, with the columns and the rows that were written', async () => {
  const lineage = { OPENLINEAGE_URL: collector.url, OPENLINEAGE_API_KEY: collectorToken, OPENLINEAGE_NAMESPACE: 'shop' }
  const result = await succeeded(backfill(lineage))
  const [start, end, ...more] = bodies.map((body): LineageEvent => JSON.parse(body))
  expect(more).toEqual([])
  expect([start?.eventType, end?.eventType]).toEqual(['START', 'COMPLETE'])
  // A UUID of version 8, in the variant of RFC 9562.
  expect(start?.run.runId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(end?.run.runId).toBe(start?.run.runId)
  for (const event of [start, end]) {
    expect(event?.schemaURL).toMatch(/^https:\/\/openlineage\.io\/spec\/2-0-2\/OpenLineage\.json#\/\$defs\/RunEvent$/)
    expect(Number.isNaN(Date.parse(event?.eventTime ?? ''))).toBe(false)
    expect(event?.job).toMatchObject({ namespace: 'shop', name: 'keywords' })
    expect(event?.outputs[0]?.facets.schema.fields).toContainEqual(expect.objectContaining({ name: 'clicks', type: 'numeric' }))
  }
  const rows = await db.query(`select count(*)::int as n from data.keywords_v1`)
  expect(end?.outputs[0]?.outputFacets?.outputStatistics.rowCount).toBe(rows[0]?.n)
  expect(new Set(authorizations)).toEqual(new Set([`Bearer ${collectorToken}`]))
  for (const text of [bodies.join(), result.stdout, result.stderr]) expect(text).not.toContain(key)
  await succeeded(backfill({ OPENLINEAGE_URL: 'http://127.0.0.1:9' }))
  const wrong = await backfill({ OPENLINEAGE_URL: 'marquez' })
  expect([wrong.code, wrong.stderr + wrong.stdout]).toEqual([2, expect.stringContaining('OPENLINEAGE_URL is no address')])
})

const python = process.env['MILLRACE_CLIENTS_CONTRACT']

test.skipIf(python === undefined)(
  'each event is valid by the types of the official client, whatever the end of its run',
  async () => {
    const { started, ended } = createLineage({ OPENLINEAGE_URL: collector.url }, silentLog)!
    const run = { warehouseId: 'warehouse', runId: 1, definitions: await shippedDefinitions() }
    await started(run)
    const written = async () => ({ keywords: { inserted: 3, updated: 2, ended: 1 } })
    for (const state of ['done', 'failed', 'cancelled', 'interrupted'] as const) await ended(run, state, written)
    const problemsOf = (events: string): unknown =>
      JSON.parse(execFileSync(python ?? '', ['test/clients/lineage.py'], { input: events, encoding: 'utf8' }))
    const all = `[${bodies.join()}]`
    expect([bodies.length, problemsOf(all)]).toEqual([15, []])
    for (const [from, to] of [
      ['"COMPLETE"', '"DONE"'],
      ['"runId":"', '"runId":"x'],
      ['"rowCount":6', '"rowCount":"6"'],
      ['"inputs":[{"namespace":', '"inputs":[{"space":'],
      ['1-2-0/SchemaDatasetFacet', '1-1-0/SchemaDatasetFacet'],
    ] as const)
      expect(problemsOf(all.replace(from, to)), to).not.toEqual([])
  },
)
