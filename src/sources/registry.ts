// Finds APIs and their sources by folder: every folder here, and every folder the user keeps, whose index exports `sources` and `api`.
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { z } from 'zod'
import { EtlError, messageOf } from '../core/errors.ts'
import { docPage, shipped } from '../core/shipped.ts'
import { apiNameOf } from '../core/source-spec.ts'
import { shareOurModules } from '../core/user-modules.ts'
import type { Api } from '../extract/api.ts'
import type { Source } from '../extract/source.ts'

const method = z.custom((value) => typeof value === 'function')
const sourceForm = z.looseObject({ name: z.string(), extract: method })
const isSource = (value: unknown): value is Source => sourceForm.safeParse(value).success

/** Names of settings go into a regular expression, so they are checked. */
const secretNames = z.array(z.string().regex(/^[A-Z][A-Z0-9_]*$/))
const apiForm = z.looseObject({ secrets: secretNames, connection: method, allowance: method })
const isApi = (value: unknown): value is Api => apiForm.safeParse(value).success

export type SourceFolders = Awaited<ReturnType<typeof loadSourceFolders>>

/** @param folders the user's own folders of sources; missing ones are left out. A user's source replaces ours of the same name. */
export const loadSourceFolders = async (folders: readonly string[] = []) => {
  const sources = new Map<string, Source>()
  /** By folder: every source has one. */
  const apis = new Map<string, Api>()
  for (const folder of new Set([shipped('src', 'sources'), ...folders])) {
    if (!existsSync(folder)) continue
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const loaded = entry.isDirectory() ? await loadFolder(join(folder, entry.name)) : null
      if (loaded === null) continue
      for (const source of loaded.sources) sources.set(source.name, source)
      if (loaded.api !== null) apis.set(entry.name, loaded.api)
      // A folder named as one of ours may add datasets to its API.
      else if (!apis.has(entry.name)) throw without(loaded.file, '`api`, which says where the service is and how it is asked')
    }
  }
  return { sources, apis }
}

/** null: no folder of sources. */
const loadFolder = async (folder: string) => {
  const file = ['index.ts', 'index.js', 'index.mjs'].map((name) => join(folder, name)).find(existsSync)
  if (file === undefined) return null
  const loaded = await importFolder(folder, file)
  const sources: unknown = Reflect.get(loaded, 'sources')
  const api: unknown = Reflect.get(loaded, 'api')
  if (!Array.isArray(sources) || !sources.every(isSource)) throw without(file, '`sources`, a list of sources')
  if (api !== undefined && !isApi(api))
    throw without(file, '`api` as it should be: `secrets` (names of settings), `connection` and `allowance`')
  const stranger = sources.find(({ name }) => apiNameOf(name) !== basename(folder))
  if (stranger !== undefined)
    throw new EtlError('CONFIGURATION', `${file}: the source '${stranger.name}' must be named '${basename(folder)}.<dataset>'.`)
  return { file, sources, api: api ?? null }
}

const importFolder = async (folder: string, file: string): Promise<object> => {
  try {
    shareOurModules()
    const loaded: unknown = await import(pathToFileURL(file).href)
    return typeof loaded === 'object' && loaded !== null ? loaded : {}
  } catch (cause) {
    throw new EtlError('CONFIGURATION', `The source in ${folder} cannot be loaded: ${messageOf(cause)}.`, { cause })
  }
}

const without = (file: string, what: string): EtlError =>
  new EtlError('CONFIGURATION', `${file} does not export ${what}; see ${docPage('adding-a-source.md')}.`)
