// `npm run release -- --dry-run`: everything a release is made of, into release/, offline; nothing is published. The workflow of a tag runs the same without
// `--dry-run`, which then also refuses what a person has to finish first, and publishes what lies in the folder.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { releaseNotes } from './release-notes.ts'
import { shippedParts } from './sbom.ts'

const root = resolve(import.meta.dirname, '..')
const { values } = parseArgs({
  options: {
    /** What a person has to finish first is named and does not end it. */
    'dry-run': { type: 'boolean', default: false },
    out: { type: 'string', default: 'release' },
  },
})
const out = resolve(root, values.out)
const { version, repository } = z
  .object({ version: z.string(), repository: z.unknown().optional() })
  .parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')))

const problems: string[] = []
const run = (program: string, args: readonly string[]): string =>
  execFileSync(program, args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26, stdio: ['ignore', 'pipe', 'pipe'] })
const say = (name: string, text: string): boolean => process.stdout.write(`${name.padEnd(10)} ${text}\n`)
const megabytes = (file: string): string => `${(statSync(file).size / 1e6).toFixed(2)} MB`

rmSync(out, { recursive: true, force: true })
mkdirSync(out, { recursive: true })
say('version', version)
writeNotes()
packProgram()
writeSbom()
buildSite()
keepDump()
say('image', 'made by the workflow: linux/amd64 and linux/arm64, each on a machine of its kind')
writeChecksums()
checkTag()
if (problems.length > 0)
  process.stdout.write(`\nBefore version ${version} goes out:\n${problems.map((one) => `- ${one}\n`).join('')}`)
if (problems.length > 0 && !values['dry-run']) process.exitCode = 1

/** The tag that starts the workflow names the version, and what is built is what it names. */
function checkTag(): void {
  const changed = run('git', ['status', '--porcelain']).trim()
  if (changed !== '') problems.push('Commit what is changed; a release is made of a commit.')
  const tags = run('git', ['tag', '--points-at', 'HEAD']).split('\n')
  if (!tags.includes(`v${version}`)) problems.push(`Tag the commit: git tag -s v${version} && git push origin v${version}`)
}

function writeNotes(): void {
  const notes = releaseNotes(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'), version)
  problems.push(...notes.problems.map((one) => `CHANGELOG.md, ${version}: ${one}`))
  if (notes.day === null) problems.push(`CHANGELOG.md: write the day, '## ${version} (YYYY-MM-DD)'.`)
  writeFileSync(join(out, 'notes.md'), `${notes.text}\n`)
  say('changelog', `notes.md, ${notes.text.split('\n').length} lines`)
}

/** `prepack` compiles it first. */
function packProgram(): void {
  if (repository === undefined) problems.push('package.json: name the repository; npm takes no provenance without it.')
  run('npm', ['pack', '--offline', '--silent', '--pack-destination', out])
  const file = join(out, `millrace-${version}.tgz`)
  say('package', `millrace-${version}.tgz, ${megabytes(file)}`)
}

function writeSbom(): void {
  const shipped = shippedParts()
  writeFileSync(join(out, 'sbom.cdx.json'), `${JSON.stringify(shipped, null, 2)}\n`)
  say('sbom', `sbom.cdx.json, ${shipped.components.length} packages (optional ones too)`)
}

/** Its generator is not part of `npm ci`: where it is not there, a dry run leaves the site out and says so. */
function buildSite(): void {
  if (!existsSync(join(root, 'tools', 'docs', 'node_modules', 'vitepress'))) {
    problems.push('Install the generator of the docs site: npm install --no-save --prefix tools/docs')
    say('site', 'left out: its generator is not installed')
    return
  }
  run('npm', ['run', '--silent', '--prefix', 'tools/docs', 'build'])
  const file = join(out, `docs-${version}.tar.gz`)
  run('tar', ['-czf', file, '-C', join(root, 'tools', 'docs', 'dist'), '.'])
  say('site', `docs-${version}.tar.gz, ${megabytes(file)}`)
}

/** What this version leaves behind, kept for the tests of every later one. */
function keepDump(): void {
  const newest = readdirSync(join(root, 'migrations'))
    .flatMap((name) => /^(\d{4})_/.exec(name)?.[1] ?? [])
    .sort()
    .at(-1)
  const name = `${version}-${newest}.sql.gz`
  const dump = join(root, 'test', 'dumps', name)
  if (!existsSync(dump)) {
    problems.push(`Make the dump for later upgrades: node scripts/make-dump.ts --database URL --out test/dumps/${name}`)
    say('dump', 'not made yet')
    return
  }
  copyFileSync(dump, join(out, name))
  say('dump', name)
}

function writeChecksums(): void {
  const names = readdirSync(out).sort()
  const sum = (name: string): string =>
    createHash('sha256')
      .update(readFileSync(join(out, name)))
      .digest('hex')
  writeFileSync(join(out, 'SHA256SUMS'), names.map((name) => `${sum(name)}  ${name}\n`).join(''))
  say('checksums', `SHA256SUMS of ${names.length} files, in ${values.out}/`)
}
