// What is installed: exact versions, known licences, checksums, install scripts by name, and a reason for each direct dependency.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { shippedParts } from '../../scripts/sbom.ts'

const root = resolve(import.meta.dirname, '..', '..')
const read = (name: string): string => readFileSync(join(root, name), 'utf8')

const manifest = z
  .object({
    dependencies: z.record(z.string(), z.string()),
    peerDependencies: z.record(z.string(), z.string()),
    peerDependenciesMeta: z.record(z.string(), z.object({ optional: z.literal(true) })),
    engines: z.object({ node: z.string().regex(/^>=\d+\.\d+\.\d+$/) }),
    devDependencies: z.record(z.string(), z.string()),
    allowScripts: z.record(z.string(), z.boolean()),
    scripts: z.record(z.string(), z.string()),
  })
  .parse(JSON.parse(read('package.json')))
const { dependencies: optional } = z
  .object({ dependencies: z.record(z.string(), z.string()) })
  .parse(JSON.parse(read('tools/optional/package.json')))
const { optionalDependencies: nodes } = z
  .object({ optionalDependencies: z.record(z.string(), z.string()) })
  .parse(JSON.parse(read('tools/node/package.json')))
const lock = z
  .object({
    packages: z.record(
      z.string(),
      z.object({
        version: z.string().optional(),
        license: z.string().optional(),
        resolved: z.string().optional(),
        integrity: z.string().optional(),
        hasInstallScript: z.boolean().optional(),
        dev: z.boolean().optional(),
        link: z.boolean().optional(),
        engines: z.record(z.string(), z.string()).optional(),
      }),
    ),
  })
  .parse(JSON.parse(read('package-lock.json')))
/** Our own folders are none. */
const installed = Object.entries(lock.packages).filter(([path, { link }]) => path.includes('node_modules/') && link !== true)
const nameOf = (path: string): string => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)

const free =
  /^\(?(MIT|MIT-0|ISC|Apache-2\.0|BSD-2-Clause|BSD-3-Clause|0BSD|BlueOak-1\.0\.0|CC0-1\.0|Unlicense|Python-2\.0|MPL-2\.0)( OR .*)?\)?$/
/** Only used while developing, hence never shipped. */
const freeToUse = /^(Artistic-2\.0|CC-BY-3\.0|CC-BY-4\.0|WTFPL)$/
/** Their licence (MIT) stands in their text, not in the lock file. */
const inTheirText = new Set(['ssh2', 'cpu-features', 'buildcheck'])

describe('the supply chain', () => {
  test('every direct dependency has an exact version and its reason in CONTRIBUTING', () => {
    const contributing = read('CONTRIBUTING.md')
    for (const [name, version] of Object.entries({
      ...manifest.dependencies,
      ...nodes,
      ...optional,
      ...manifest.devDependencies,
    })) {
      expect(version, name).toMatch(/^\d+\.\d+\.\d+(-[\w.]+)?$/)
      const short = name.replace(/^@opentelemetry\//, '-/')
      expect(contributing.includes(name) || contributing.includes(short) || name.startsWith('@types/'), name).toBe(true)
    }
  })

  test('every installed package comes from the registry with a checksum and under a licence that may be shipped', () => {
    for (const [path, { license, resolved, integrity, dev }] of installed) {
      // Without an address npm asks the registry that is set; one that names another place is not ours.
      if (resolved !== undefined) expect(resolved, path).toMatch(/^https:\/\/registry\.npmjs\.org\//)
      expect(integrity, path).toMatch(/^sha512-/)
      if (inTheirText.has(nameOf(path))) continue
      const allowed = dev === true && freeToUse.test(license ?? '')
      if (!allowed) expect(license ?? 'none', path).toMatch(free)
    }
  })

  test('the Node that runs is one that was locked: a package for each platform with its checksum, and no script that fetches it', () => {
    expect(Object.keys({ ...manifest.dependencies, ...manifest.devDependencies })).not.toContain('node')
    expect(installed.map(([path]) => nameOf(path)).filter((name) => /^node(-bin-setup)?$/.test(name))).toEqual([])
    const platforms = Object.keys(nodes).filter((name) => /^node-(bin-)?(darwin|linux|win)-/.test(name))
    expect(platforms).toHaveLength(5)
    for (const name of platforms) {
      const found = lock.packages[`node_modules/${name}`]
      expect([found?.version, found?.hasInstallScript], name).toEqual([nodes[name], undefined])
      expect(found?.integrity, name).toMatch(/^sha512-/)
    }
    expect(new Set(Object.values(nodes)).size).toBe(1)
  })

  test('who installs Millrace gets no Node.js, and what only some need is theirs to add, in the version that is tested', () => {
    expect(Object.keys(manifest.dependencies).filter((name) => /^node-(bin-)?(darwin|linux|win)/.test(name))).toEqual([])
    expect(manifest.peerDependencies).toEqual(
      Object.fromEntries(Object.entries(optional).map(([name, version]) => [name, `^${version}`])),
    )
    expect(Object.keys(manifest.peerDependenciesMeta)).toEqual(Object.keys(optional))
    // Audits, lists of what is shipped and the tests of this file pass over what is `dev`.
    for (const name of Object.keys({ ...manifest.dependencies, ...optional })) {
      expect([lock.packages[`node_modules/${name}`]?.dev ?? false, manifest.devDependencies[name]], name).toEqual([
        false,
        undefined,
      ])
    }
  })

  test('the oldest Node.js is the newest that a part asks for, and every page names that one', () => {
    const asked = installed.flatMap(([, { dev, engines }]) => {
      const [, major, minor] = /^>=\s*(\d+)(?:\.(\d+))?/.exec(engines?.['node'] ?? '') ?? []
      return dev === true || major === undefined ? [] : [Number(major) + Number(minor ?? 0) / 1000]
    })
    // From 22.18 on Node.js runs TypeScript.
    const newest = Math.max(22.018, ...asked)
    const oldest = `${Math.floor(newest)}.${Math.round((newest % 1) * 1000)}`
    expect(manifest.engines.node).toBe(`>=${oldest}.0`)
    for (const page of ['README.md', 'CONTRIBUTING.md', 'docs/first-hour.md']) {
      const named = [...read(page).matchAll(/\b22\.\d+/g)].map(([version]) => version)
      expect([page, ...new Set(named)]).toEqual([page, oldest])
    }
    expect(read('bin/millrace.js')).not.toMatch(/\b22\.\d+/)
  })

  test('the list of parts of a release names every library that runs at a user’s, and none that only develops', () => {
    const listed = new Set(shippedParts().components.map((one) => one['bom-ref']))
    const runs = Object.entries({ ...manifest.dependencies, ...optional }).map(([name, version]) => `${name}@${version}`)
    expect(runs.filter((one) => !listed.has(one))).toEqual([])
    const develops = Object.entries(manifest.devDependencies).filter(
      ([name]) => lock.packages[`node_modules/${name}`]?.dev === true,
    )
    expect(
      [...develops.map(([name, version]) => `${name}@${version}`), '@millrace/node@0.0.0'].filter((one) => listed.has(one)),
    ).toEqual([])
  })

  test('a newcomer finds at most twenty scripts; what is rarer is called by its file', () => {
    expect(Object.keys(manifest.scripts).length).toBeLessThanOrEqual(20)
  })

  test('only packages allowed by name run a script when they are installed', () => {
    const withScripts = installed.filter(([, { hasInstallScript }]) => hasInstallScript === true).map(([path]) => nameOf(path))
    for (const name of withScripts) expect(Object.keys(manifest.allowScripts), name).toContain(name)
  })
})
