// params of a definition, checked with the source's own schema.
import type { ParamValue } from '../core/types.ts'
import { jsonSchemaOf, problemsOf } from './issues.ts'
import type { Scope } from './scope.ts'

/** Parameters with the source's defaults filled in; null when they are not valid (the problems went to the scope). */
export const readParams = (raw: Readonly<Record<string, unknown>>, scope: Scope): Readonly<Record<string, ParamValue>> | null => {
  const checked = scope.source.params.safeParse(raw)
  if (checked.success) return checked.data
  scope.problems.push(...problemsOf(checked.error.issues, scope.source.params, scope.yaml, ['params']))
  return null
}

/** What the source says of a parameter; null when it says nothing. */
export const paramDescription = (scope: Scope, name: string): string | null =>
  jsonSchemaOf(scope.source.params).properties?.[name]?.description ?? null
