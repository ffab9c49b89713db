// What the key may ask, against what the definitions want; whatever the service does not tell is left out.
import type { Definition } from '../../core/types.ts'
import type { ServiceFinding } from '../../extract/api.ts'
import type { HttpClient } from '../../extract/http-types.ts'
import { capabilities, credits, describe } from './discovery.ts'
import { keywords } from './keywords.ts'

/** Only free questions. Throws KEY_REFUSED where the service says so. */
export const check = async (http: HttpClient, definitions: readonly Definition[]): Promise<ServiceFinding[]> => [
  ...(await countries(http, definitions)),
  ...(await datasets(http, definitions)),
  ...(await quotaLeft(http, definitions)),
]

const countries = async (http: HttpClient, definitions: readonly Definition[]): Promise<ServiceFinding[]> => {
  const offered = await capabilities(http)
  const known = new Set(offered?.families.flatMap((family) => family.countries))
  if (known.size === 0) return []
  return definitions.flatMap((definition) =>
    definition.dimensions
      .filter((dimension) => dimension.name === 'country')
      .flatMap((dimension) => dimension.values.filter((value) => !known.has(value)))
      .map((value) => ({
        level: 'error' as const,
        message: `${definition.pipeline}: the key may not ask for country '${value}'; see \`millrace capabilities\`, then correct for_each.`,
      })),
  )
}

const datasets = async (http: HttpClient, definitions: readonly Definition[]): Promise<ServiceFinding[]> => {
  const offered = await describe(http)
  if (offered === null) return []
  return definitions.flatMap((definition) => {
    const vtable = definition.params['vtable']
    if (typeof vtable !== 'string') return []
    const dataset = offered.find((one) => one.table === vtable)
    if (dataset === undefined)
      return [
        {
          level: 'error' as const,
          message: `${definition.pipeline}: the service does not offer dataset '${vtable}'; see \`millrace describe\`.`,
        },
      ]
    return missingMetrics(definition, dataset.metrics)
  })
}

const missingMetrics = (definition: Definition, offered: readonly string[]): ServiceFinding[] => {
  if (offered.length === 0) return []
  return definition.columns
    .filter((column) => !column.isKey && column.origin === 'response' && !offered.includes(column.from[0] ?? column.name))
    .map((column) => ({
      level: 'error',
      message: `${definition.pipeline}: dataset ${String(definition.params['vtable'])} has no metric '${column.from[0] ?? column.name}' (column ${column.name}); see \`millrace describe\`.`,
    }))
}

const quotaLeft = async (http: HttpClient, definitions: readonly Definition[]): Promise<ServiceFinding[]> => {
  if (!definitions.some((definition) => definition.source !== keywords.name)) return []
  const left = await credits(http)
  return left?.remaining === 0
    ? [
        {
          level: 'warning',
          message: 'No credits are left for batch reports; submissions will be refused until they are refilled.',
        },
      ]
    : []
}
