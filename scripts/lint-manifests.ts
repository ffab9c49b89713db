// Lints what others run us with: Dockerfiles, Kubernetes manifests and systemd units, the templates as `millrace init` writes them.
// `node scripts/lint-manifests.ts [FOLDER]`; without a folder, the repository's own image and a fresh `init`.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { lintDockerfile } from './manifests/dockerfile.ts'
import { lintKubernetes } from './manifests/kubernetes.ts'
import { lintUnits } from './manifests/systemd.ts'

const root = resolve(import.meta.dirname, '..')

const init = (folder: string): void => {
  const { status, stderr } = spawnSync(process.execPath, [join(root, 'bin', 'millrace.js'), 'init', folder], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`millrace init: ${stderr}`)
}

const filesBelow = (folder: string): string[] =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name))
        .sort()
    : []

const problemsOf = (folder: string): string[] => {
  const shown = (file: string): string => relative(folder, file)
  const deploy = filesBelow(join(folder, 'deploy'))
  const image = join(folder, 'Dockerfile')
  const manifests = deploy.filter((file) => /\.ya?ml$/.test(file))
  const units = deploy.filter((file) => /\.(service|timer)$/.test(file))
  return [
    ...(existsSync(image) ? lintDockerfile(shown(image), readFileSync(image, 'utf8')) : []),
    ...lintKubernetes(manifests.map((file) => ({ name: shown(file), text: readFileSync(file, 'utf8') }))),
    ...lintUnits(units.map((file) => ({ name: shown(file), text: readFileSync(file, 'utf8') }))),
  ]
}

const given = process.argv[2]
const fresh = given === undefined ? mkdtempSync(join(tmpdir(), 'millrace-lint-')) : null
try {
  if (fresh !== null) init(join(fresh, 'my-warehouse'))
  const problems = fresh === null ? problemsOf(resolve(given ?? '.')) : [root, join(fresh, 'my-warehouse')].flatMap(problemsOf)
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  process.stdout.write(problems.length === 0 ? 'Manifests: no problems.\n' : `Manifests: ${problems.length} problems.\n`)
  process.exitCode = problems.length === 0 ? 0 : 1
} finally {
  if (fresh !== null) rmSync(fresh, { recursive: true, force: true })
}
