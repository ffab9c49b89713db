// The shipped definitions with the real sources, for tests.
import { join, resolve } from 'node:path'
import type { Definition, Slice, Unit } from '../../src/core/types.ts'
import { windowAt } from '../../src/core/window.ts'
import { assertDefinitions, loadDefinitions } from '../../src/definition/load.ts'
import { unitKey } from '../../src/plan/unit-key.ts'
import { loadSources } from '../../src/sources/registry.ts'

const repository = resolve(import.meta.dirname, '..', '..')

export const shippedDefinitions = async (): Promise<readonly Definition[]> => {
  const result = await loadDefinitions({ folder: join(repository, 'pipelines'), sources: await loadSources() })
  assertDefinitions(result)
  return result.definitions
}

export const shippedDefinition = async (pipeline: string): Promise<Definition> => {
  const found = (await shippedDefinitions()).find((definition) => definition.pipeline === pipeline)
  if (found === undefined) throw new Error(`no definition ${pipeline}`)
  return found
}

/** @param month `2026-01` */
export const unitOf = (definition: Definition, month: string, slice: Slice): Unit => {
  const window = windowAt(`${month}-01`, 'month')
  return {
    key: unitKey(definition.pipeline, definition.version, window, slice),
    pipeline: definition.pipeline,
    version: definition.version,
    window,
    slice,
  }
}
