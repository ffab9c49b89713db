// Finds sources by folder: every folder here, and every folder the user keeps, whose index exports `sources`.
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { EtlError, messageOf } from '../core/errors.ts'
import { shipped } from '../core/shipped.ts'
import { shareOurModules } from '../core/user-modules.ts'
import type { Source } from '../extract/source.ts'

const isSource = (value: unknown): value is Source =>
  typeof value === 'object' &&
  value !== null &&
  'name' in value &&
  typeof value.name === 'string' &&
  'extract' in value &&
  typeof value.extract === 'function'

/** @param folders the user's own folders of sources; those that are not there are left out. */
export const loadSources = async (folders: readonly string[] = []): Promise<ReadonlyMap<string, Source>> => {
  const sources = new Map<string, Source>()
  for (const folder of new Set([shipped('src', 'sources'), ...folders])) {
    if (!existsSync(folder)) continue
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) for (const source of await loadFolder(join(folder, entry.name))) sources.set(source.name, source)
    }
  }
  return sources
}

const loadFolder = async (folder: string): Promise<readonly Source[]> => {
  const file = ['index.ts', 'index.js', 'index.mjs'].map((name) => join(folder, name)).find(existsSync)
  if (file === undefined) return []
  try {
    shareOurModules()
    const loaded: unknown = await import(pathToFileURL(file).href)
    const list = typeof loaded === 'object' && loaded !== null && 'sources' in loaded ? loaded.sources : undefined
    if (Array.isArray(list) && list.every(isSource)) return list
  } catch (cause) {
    throw new EtlError('CONFIGURATION', `The source in ${folder} cannot be loaded: ${messageOf(cause)}.`, { cause })
  }
  throw new EtlError('CONFIGURATION', `${file} does not export \`sources\`, a list of sources; see docs/adding-a-source.md.`)
}
