// Lists of a process that stays: read from their files anew before each run, so that what a person changed counts from the next one on.
import { dirname } from 'node:path'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { assertDefinitions, loadDefinitions } from '../definition/load.ts'
import type { Runtime } from './runtime.ts'

/** As they were read last, by the definition this process began with. */
const lastRead = new WeakMap<Definition, Definition['dimensions']>()

/**
 * The definition with the values its files hold now; everything else of it is as it was when the process began. Where the files cannot be read, or
 * hold other dimensions, the former values count, which the log says. Throws DEFINITION where the definition is gone: nothing is asked for then.
 */
export const withCurrentLists = async (
  { sources, log }: Pick<Runtime, 'sources' | 'log'>,
  definition: Definition,
): Promise<Definition> => {
  const { pipeline, version, file } = definition
  const now = await readAgain(definition, sources).catch((error: unknown) => {
    log.warn({ pipeline, error: messageOf(error) }, 'the definition cannot be read; the run goes by the former lists')
    return { dimensions: lastRead.get(definition) ?? definition.dimensions }
  })
  if (now === null)
    throw new EtlError(
      'DEFINITION',
      `${file} does not define ${pipeline} version ${version} any more: nothing is asked for. Put it back, or restart this process.`,
    )
  lastRead.set(definition, now.dimensions)
  return { ...definition, dimensions: now.dimensions }
}

/** null: it is gone. Throws where it is there and not right, or not as this process knows it. */
const readAgain = async (definition: Definition, sources: Runtime['sources']): Promise<Definition | null> => {
  const { pipeline, version } = definition
  const folder = dirname(definition.file)
  const found = await loadDefinitions({ folder, sources, only: [pipeline] }).catch((error: unknown) => {
    // There is no pipeline of that name.
    if (isEtlError(error) && error.code === 'USAGE') return null
    throw error
  })
  const now = found?.definitions.find((one) => one.pipeline === pipeline && one.version === version)
  if (found === null || (now === undefined && found.problems.every(({ file }) => file === folder))) return null
  assertDefinitions(found)
  if (now === undefined || namesOf(now) !== namesOf(definition))
    throw new EtlError('DEFINITION', `${definition.file} names other dimensions; restart this process.`)
  return now
}

const namesOf = ({ dimensions }: Definition): string => dimensions.map(({ name }) => name).join()
