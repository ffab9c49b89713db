// The shipped definitions with the real sources, for tests.
import type { Mart } from '../../src/core/mart.ts'
import type { KnownMarts } from '../../src/load/summaries.ts'
import { join, resolve } from 'node:path'
import type { Box, Definition, Slice, Unit } from '../../src/core/types.ts'
import { boxOf as boxOfSlices, unitKey } from '../../src/core/unit-key.ts'
import { windowAt } from '../../src/core/window.ts'
import { assertDefinitions, loadDefinitions } from '../../src/definition/load.ts'
import { loadSourceFolders } from '../../src/sources/registry.ts'

const repository = resolve(import.meta.dirname, '..', '..')

export const shippedDefinitions = async (): Promise<readonly Definition[]> => {
  const result = await loadDefinitions({ folder: join(repository, 'pipelines'), sources: (await loadSourceFolders()).sources })
  assertDefinitions(result)
  return result.definitions
}

export const shippedDefinition = async (pipeline: string): Promise<Definition> => {
  const found = (await shippedDefinitions()).find((definition) => definition.pipeline === pipeline)
  if (found === undefined) throw new Error(`no definition ${pipeline}`)
  return found
}

/** @param month `2026-01` */
export const unitOf = (definition: Definition, month: string, slice: Unit['slice']): Unit => {
  const { pipeline, version } = definition
  const window = windowAt(`${month}-01`, 'month')
  return { key: unitKey(pipeline, version, window, slice), pipeline, version, window, slice }
}

/** Every combination of the values, in one month or up to `lastMonth`. */
export const boxOf = (definition: Definition, month: string, slice: Slice, lastMonth = month): Box => {
  const { pipeline, version } = definition
  const window = { from: `${month}-01`, to: windowAt(`${lastMonth}-01`, 'month').to }
  return boxOfSlices({ pipeline, version, window, dimensions: Object.keys(slice), slices: combinations(Object.values(slice)) })
}

/** One of each list, in every way. */
export const combinations = (lists: readonly (string | readonly string[])[]): string[][] =>
  lists.reduce<string[][]>((found, list) => found.flatMap((one) => [list].flat().map((value) => [...one, value])), [[]])

/** As a process knows them that read files once. @param now what it finds when it reads them again */
export const knownMarts = (marts: readonly Mart[], now: readonly Mart[] = marts): KnownMarts => {
  let current = marts
  return {
    current: () => current,
    reread: async () => {
      current = now
      return now
    },
  }
}
