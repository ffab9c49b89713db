// A user's migrations and sources may import the libraries Millrace brings, also where no node_modules lies above them.
import { existsSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { pathToFileURL } from 'node:url'
import { shipped } from './shipped.ts'

const shared = new Set(['kysely', 'zod'])
/** A user's source without its own installation of Millrace imports the running one. */
const ourselves = pathToFileURL([shipped('src', 'index.ts'), shipped('src', 'index.js')].find(existsSync) ?? '').href
let registered = false

/** Call before importing a user's file. A library in the user's own node_modules comes first. */
export const shareOurModules = (): void => {
  if (registered) return
  registered = true
  registerHooks({
    resolve: (specifier, context, next) => {
      try {
        return next(specifier, context)
      } catch (error) {
        if (specifier === 'millrace') return next(ourselves, context)
        if (!shared.has(specifier.split('/')[0] ?? '')) throw error
        return next(specifier, { ...context, parentURL: import.meta.url })
      }
    },
  })
}
