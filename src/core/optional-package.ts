// Packages that only some features need: they are not installed with Millrace; a feature that needs one says how to install it.
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { codeOf } from './disk-error.ts'
import { EtlError, messageOf } from './errors.ts'
import { packageFile } from './shipped.ts'

const manifestSchema = z.looseObject({ peerDependencies: z.record(z.string(), z.string()) })

/** `@aws-sdk/client-s3@^3.1169.0`, as npm takes it. */
const asked = (name: string): string => {
  const { peerDependencies } = manifestSchema.parse(JSON.parse(readFileSync(packageFile(), 'utf8')))
  return `${name}@${peerDependencies[name] ?? 'latest'}`
}

const isMissing = (error: unknown, packages: readonly string[]): boolean =>
  codeOf(error) === 'ERR_MODULE_NOT_FOUND' && packages.some((name) => messageOf(error).includes(`'${name}'`))

/**
 * The result of `load`. Throws CONFIGURATION with the install command where a package is missing.
 * @param what the feature that needs them, as the subject of a sentence: `Landings in a bucket`
 */
export const withPackages = async <T>(what: string, packages: readonly string[], load: () => Promise<T>): Promise<T> => {
  try {
    return await load()
  } catch (error) {
    if (!isMissing(error, packages)) throw error
    const [names, all] = [packages.join(', '), packages.map((name) => `'${asked(name)}'`).join(' ')]
    throw new EtlError(
      'CONFIGURATION',
      `${what} need ${packages.length === 1 ? `the package ${names}, which is` : `the packages ${names}, which are`} not installed with Millrace. Next: npm install ${all}`,
      { cause: error },
    )
  }
}
