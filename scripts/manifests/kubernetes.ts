// Kubernetes manifests against the schemas of the API: kubernetes-models checks values and formats, its types find names that do not exist.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import * as apps from 'kubernetes-models/apps/v1'
import * as batch from 'kubernetes-models/batch/v1'
import * as core from 'kubernetes-models/v1'
import { parseAllDocuments } from 'yaml'
import { z } from 'zod'
import { podPromises } from './pod.ts'

export interface NamedText {
  readonly name: string
  readonly text: string
}

interface Manifest {
  /** File, kind and name. */
  readonly about: string
  readonly apiVersion: string
  readonly kind: string
  readonly value: unknown
}

const root = resolve(import.meta.dirname, '..', '..')
const packages = join(root, 'node_modules')

const header = z.looseObject({ apiVersion: z.string(), kind: z.string(), metadata: z.looseObject({ name: z.string() }) })
const modelsOf = new Map<string, Readonly<Record<string, unknown>>>([
  ['apps/v1', { ...apps }],
  ['batch/v1', { ...batch }],
  ['v1', { ...core }],
])

/** Problems as `file (kind name): what`, none where all are good. */
export const lintKubernetes = (files: readonly NamedText[]): string[] => {
  const problems: string[] = []
  const manifests = files.flatMap((file) => manifestsOf(file, problems))
  for (const manifest of manifests) {
    problems.push(...valueProblems(manifest))
    problems.push(...podPromises(manifest.value).map((problem) => `${manifest.about}: ${problem}`))
  }
  return [...problems, ...unknownNames(manifests)]
}

const manifestsOf = ({ name, text }: NamedText, problems: string[]): Manifest[] =>
  parseAllDocuments(text).flatMap((document) => {
    for (const { message } of document.errors) problems.push(`${name}: ${message}`)
    if (document.errors.length > 0) return []
    const value: unknown = document.toJS()
    const head = header.safeParse(value)
    if (!head.success) {
      problems.push(`${name}: a manifest has apiVersion, kind and metadata.name.`)
      return []
    }
    const { apiVersion, kind, metadata } = head.data
    const model = modelsOf.get(apiVersion)?.[kind]
    if (model !== undefined) return [{ about: `${name} (${kind} ${metadata.name})`, apiVersion, kind, value }]
    problems.push(`${name}: there is no ${kind} in ${apiVersion} (known here: ${[...modelsOf.keys()].join(', ')}).`)
    return []
  })

const isModel = (model: unknown): model is new (data: unknown) => { validate(): void } => typeof model === 'function'

const valueProblems = ({ about, apiVersion, kind, value }: Manifest): string[] => {
  const model = modelsOf.get(apiVersion)?.[kind]
  if (!isModel(model)) return [`${about}: no schema.`]
  try {
    new model(value).validate()
    return []
  } catch (error) {
    return [`${about}: ${error instanceof Error ? error.message : String(error)}`]
  }
}

/** The API's schemas allow any name, and a server drops those it does not know in silence; the compiler does not. */
const unknownNames = (manifests: readonly Manifest[]): string[] => {
  if (manifests.length === 0) return []
  const folder = mkdtempSync(join(tmpdir(), 'millrace-kubernetes-'))
  try {
    const sources = manifests.map(({ apiVersion, kind, value }, index) => {
      const file = `manifest${index}.ts`
      const text = `import type { I${kind} as Kind } from 'kubernetes-models/${apiVersion}'\nexport const value: Kind = ${JSON.stringify(value, null, 1)}\n`
      writeFileSync(join(folder, file), text)
      return file
    })
    writeFileSync(join(folder, 'tsconfig.json'), compilerSettings(sources))
    const { stdout } = spawnSync(join(packages, '.bin', 'tsc'), ['-p', folder, '--pretty', 'false'], {
      encoding: 'utf8',
      cwd: folder,
    })
    return stdout.split('\n').flatMap((line) => {
      const [, index, message] = /^manifest(\d+)\.ts\(.*?\): error TS\d+: (.*)$/.exec(line) ?? []
      if (index !== undefined)
        return [`${manifests[Number(index)]?.about}: ${message?.replaceAll(`'"`, "'").replaceAll(`"'`, "'")}`]
      return /error TS/.test(line) ? [line] : []
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const compilerSettings = (files: readonly string[]): string =>
  JSON.stringify({
    compilerOptions: {
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      module: 'nodenext',
      target: 'esnext',
      types: [],
      paths: { 'kubernetes-models/*': [join(packages, 'kubernetes-models', '*', 'index.d.ts')] },
    },
    files,
  })
