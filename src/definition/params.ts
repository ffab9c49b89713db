// params of a definition, checked with the source's own schema.
import type { ParamValue } from '../core/types.ts'
import { jsonSchemaOf, problemsOf } from './issues.ts'
import { report, type Scope } from './scope.ts'

/** Parameters with the source's defaults filled in; null when they are not valid (the problems went to the scope). @param forEach names the pipeline runs for: each unit has its own value of them */
export const readParams = (
  raw: Readonly<Record<string, unknown>>,
  forEach: readonly string[],
  scope: Scope,
): Readonly<Record<string, ParamValue>> | null => {
  const checked = scope.source.params.safeParse(raw)
  for (const name of forEach.filter((one) => Object.hasOwn(raw, one)))
    report(scope, ['params', name], `'${name}' is in params and in for_each; keep it in one of the two.`, 'key')
  if (checked.success) return Object.fromEntries(Object.entries(checked.data).filter(([name]) => !forEach.includes(name)))
  scope.problems.push(...problemsOf(checked.error.issues, scope.source.params, scope.yaml, ['params']))
  return null
}

/** What the source says of a parameter; null when it says nothing. */
export const paramDescription = (scope: Scope, name: string): string | null =>
  jsonSchemaOf(scope.source.params).properties?.[name]?.description ?? null
