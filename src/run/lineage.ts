// Runs as OpenLineage events, switched on by OPENLINEAGE_URL: a START and an end for each pipeline of a run, with its columns and what was written.
import { createHash } from 'node:crypto'
import { messageOf, settingError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Environment } from '../core/read-setting.ts'
import { redact, secret } from '../core/redact.ts'
import type { Definition, RowCounts } from '../core/types.ts'
import { version } from '../core/shipped.ts'

/** What a run wrote, by pipeline. */
type WrittenRows = Readonly<Record<string, Pick<RowCounts, 'inserted' | 'updated' | 'ended'>>>

interface LineageRun {
  readonly warehouseId: string
  readonly runId: number
  readonly definitions: readonly Definition[]
}

type RunEnd = 'done' | 'failed' | 'cancelled' | 'interrupted'

const addressName = 'OPENLINEAGE_URL'
const keyName = 'OPENLINEAGE_API_KEY'
const producer = `urn:millrace:${version}`
const specification = 'https://openlineage.io/spec'
/** For all events of a start or an end together: a collector that is away delays no run by more, and fails none. */
const sendMs = 5_000

const endTypes: Readonly<Record<RunEnd, string>> = { done: 'COMPLETE', failed: 'FAIL', cancelled: 'ABORT', interrupted: 'ABORT' }

/** By the standard variables OPENLINEAGE_URL, _ENDPOINT, _API_KEY, _NAMESPACE and _DISABLED; null: no receiver is set. Throws CONFIGURATION. */
export const createLineage = (environment: Environment, log: Log) => {
  const text = environment[addressName] ?? ''
  if (text === '' || environment['OPENLINEAGE_DISABLED'] === 'true') return null
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw settingError(`${addressName} is no address such as http://marquez.example.com:5000.`)
  const address = new URL(environment['OPENLINEAGE_ENDPOINT'] || 'api/v1/lineage', text.replace(/\/?$/, '/'))
  const key = environment[keyName] ? secret(keyName, environment[keyName]) : null
  const namespace = environment['OPENLINEAGE_NAMESPACE'] || 'millrace'
  const send = async (events: readonly unknown[]): Promise<void> => {
    const signal = AbortSignal.timeout(sendMs)
    for (const event of events) {
      try {
        const headers = {
          'content-type': 'application/json',
          ...(key === null ? {} : { authorization: `Bearer ${key.reveal()}` }),
        }
        const answer = await fetch(address, { method: 'POST', headers, body: JSON.stringify(event), redirect: 'error', signal })
        await answer.body?.cancel()
        if (!answer.ok) log.warn({ status: answer.status }, 'lineage refused')
      } catch (error) {
        log.warn({ error: redact(messageOf(error)) }, 'lineage lost')
      }
    }
  }
  return {
    started: (run: LineageRun): Promise<void> =>
      send(run.definitions.map((definition) => eventOf(namespace, run, definition, 'START', null))),
    /** @param read what was written */
    ended: async (run: LineageRun, state: RunEnd, read: () => Promise<WrittenRows>): Promise<void> => {
      const rows = await read().catch((error: unknown): WrittenRows => {
        log.warn({ error: redact(messageOf(error)) }, 'lineage without rows')
        return {}
      })
      const end = (one: Definition): object => eventOf(namespace, run, one, endTypes[state], rows[one.pipeline] ?? null)
      await send(run.definitions.map(end))
    },
  }
}

const facet = (name: string, file: string, fields: object): object => ({
  [name]: { _producer: producer, _schemaURL: `${specification}/facets/${file}`, ...fields },
})

const eventOf = (
  namespace: string,
  { warehouseId, runId }: LineageRun,
  { pipeline, source, description, columns }: Definition,
  eventType: string,
  rows: WrittenRows[string] | null,
): object => ({
  eventType,
  eventTime: new Date().toISOString(),
  producer,
  schemaURL: `${specification}/2-0-2/OpenLineage.json#/$defs/RunEvent`,
  // The same id for both events of a pipeline and run, whichever process sends them.
  run: { runId: uuidOf(`${warehouseId}/${runId}/${pipeline}`) },
  job: {
    namespace,
    name: pipeline,
    facets: facet('documentation', '1-1-0/DocumentationJobFacet.json#/$defs/DocumentationJobFacet', { description }),
  },
  inputs: [{ namespace: source.split('.', 1)[0], name: source }],
  outputs: [
    {
      namespace,
      name: `bi.${pipeline}`,
      facets: facet('schema', '1-2-0/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet', {
        fields: columns.map((column) => ({ name: column.name, type: column.type, description: column.description })),
      }),
      ...(rows === null
        ? {}
        : {
            outputFacets: facet(
              'outputStatistics',
              '1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet',
              { rowCount: rows.inserted + rows.updated + rows.ended },
            ),
          }),
    },
  ],
})

/** A version 8 UUID (RFC 9562) made of a digest: equal names have equal ids. */
const uuidOf = (name: string): string => {
  const digest = createHash('sha256').update(name).digest().subarray(0, 16)
  digest[6] = ((digest[6] ?? 0) & 0x0f) | 0x80
  digest[8] = ((digest[8] ?? 0) & 0x3f) | 0x80
  const hex = digest.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
