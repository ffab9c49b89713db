// What a release is made of, from the lock file: every library that runs at a user's, those that only some need too.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { z } from 'zod'

const root = resolve(import.meta.dirname, '..')
const listSchema = z.looseObject({
  metadata: z.looseObject({ component: z.looseObject({ name: z.string() }) }),
  components: z.array(z.looseObject({ 'bom-ref': z.string() })),
  dependencies: z.array(z.looseObject({ ref: z.string(), dependsOn: z.array(z.string()).optional() })),
})
const lockSchema = z.object({
  packages: z.record(z.string(), z.object({ version: z.string().optional(), dev: z.boolean().optional() })),
})

/** The checkout's own Node.js is in the lock file; who installs Millrace does not get it. */
const isOurs = (path: string): boolean => /^node_modules\/node-(?:bin-)?(?:darwin|linux|win)-/.test(path)

/** CycloneDX. npm's own `--omit dev` leaves out each library that a development tool needs, too: undici, yaml and zod among them. */
export const shippedParts = (): z.infer<typeof listSchema> => {
  const list = listSchema.parse(
    JSON.parse(
      execFileSync('npm', ['sbom', '--package-lock-only', '--sbom-format', 'cyclonedx', '--sbom-type', 'application'], {
        ...{ cwd: root, encoding: 'utf8', maxBuffer: 1 << 26, stdio: ['ignore', 'pipe', 'pipe'] },
      }),
    ),
  )
  const { packages } = lockSchema.parse(JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')))
  const shipped = new Set(
    Object.entries(packages)
      .filter(([path, { dev }]) => path.includes('node_modules/') && dev !== true && !isOurs(path))
      .map(([path, { version }]) => `${path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)}@${version}`),
  )
  const { component } = list.metadata
  const isKept = (ref: string): boolean => shipped.has(ref) || ref === component['bom-ref']
  return {
    ...list,
    metadata: { ...list.metadata, component: { ...component, name: 'millrace' } },
    components: list.components.filter((one) => isKept(one['bom-ref'])),
    dependencies: list.dependencies
      .filter(({ ref }) => isKept(ref))
      .map((one) => ({ ...one, dependsOn: one.dependsOn?.filter(isKept) })),
  }
}
