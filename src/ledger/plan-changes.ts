// What has changed in a definition since the last plan: values of its lists, and everything that it asks for or limits.
import type { Definition } from '../core/types.ts'
import { addWindows } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import type { Texts } from '../db/typed-row.ts'
import { fetchingNeeds, isSamePipeline } from './pipelines.ts'
import { wantedValues } from './slices.ts'

/** A setting of the definition with another value now: `params.web_source`, `limits.attempts`, `metrics`, `version`. */
type DefinitionChange = Texts<'what' | 'from' | 'to'>

const mostNamed = 5

/** What changed since the last run, for people who read a plan; `isNew`: nothing was ever planned with this version and these key parameters. Call before `registerPipeline`. */
export const changesSince = async (db: Db, definition: Definition) => {
  const row = await db
    .selectFrom('etl.pipelines')
    .select(['pipeline_id', 'dimensions', 'definition'])
    .where(isSamePipeline(definition))
    .executeTakeFirst()
  if (row === undefined) {
    const former = await formerVersion(db, definition)
    return { isNew: true, lists: [], definition: former }
  }
  const before = flatten(row.definition)
  const after = flatten(JSON.parse(JSON.stringify(fetchingNeeds(definition))))
  return {
    isNew: false,
    lists: await listChanges(db, definition, row.pipeline_id, row.dimensions),
    definition: [...new Set([...before.keys(), ...after.keys()])]
      .filter((what) => what !== 'file' && before.get(what) !== after.get(what))
      .sort()
      .map((what) => ({ what, from: before.get(what) ?? '-', to: after.get(what) ?? '-' })),
  }
}

/** What differs from the newest planned version, or from the same version with other key parameters. */
const formerVersion = async (db: Db, { pipeline, version, params }: Definition): Promise<DefinitionChange[]> => {
  const row = await db
    .selectFrom('etl.pipelines')
    .select(['version', 'parameters'])
    .where('pipeline', '=', pipeline)
    .orderBy('version', 'desc')
    .orderBy('pipeline_id', 'desc')
    .executeTakeFirst()
  if (row === undefined) return []
  if (row.version !== version) return [{ what: 'version', from: String(row.version), to: String(version) }]
  const before = flatten(row.parameters)
  return [...before]
    .filter(([name, value]) => value !== String(params[name]))
    .map(([name, value]) => ({ what: `params.${name}`, from: value, to: String(params[name]) }))
}

/** Values that came or left, and the first few of each. */
const listChanges = async (db: Db, definition: Definition, pipelineId: number, dimensions: readonly string[]) => {
  const changes = []
  for (const [place, dimension] of dimensions.entries()) {
    const before = new Set(await wantedValues(db, pipelineId, place))
    const now = new Set(definition.dimensions.find(({ name }) => name === dimension)?.values ?? [])
    const came = [...now].filter((value) => !before.has(value))
    const left = [...before].filter((value) => !now.has(value))
    if (came.length + left.length === 0) continue
    const few = (values: readonly string[]): string[] => values.toSorted().slice(0, mostNamed)
    changes.push({ dimension, came: came.length, left: left.length, cameValues: few(came), leftValues: few(left) })
  }
  return changes
}

const flatten = (value: unknown, prefix = ''): Map<string, string> => {
  // The month that was written: the definition keeps the first day after it.
  if (prefix === 'window.publication.until') return new Map([['until', addWindows(String(value), 'month', -1).slice(0, 7)]])
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return new Map([[prefix, Array.isArray(value) ? value.join(', ') : String(value)]])
  return new Map(
    Object.entries(value).flatMap(([name, inner]) => [...flatten(inner, prefix === '' ? name : `${prefix}.${name}`)]),
  )
}
