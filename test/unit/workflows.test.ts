// What runs at the forge: actions are pinned by commit, rights are given job by job, no text of a stranger reaches a shell, and what is called is there.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'

const root = resolve(import.meta.dirname, '..', '..')
const folder = join(root, '.github', 'workflows')
const scripts = Object.keys(
  z.object({ scripts: z.record(z.string(), z.string()) }).parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')))
    .scripts,
)

const stepSchema = z.object({
  uses: z.string().optional(),
  run: z.string().optional(),
  with: z.record(z.string(), z.unknown()).optional(),
})
const workflowSchema = z.object({
  on: z.unknown(),
  permissions: z.strictObject({}),
  jobs: z.record(
    z.string(),
    z.object({
      permissions: z.record(z.string(), z.enum(['read', 'write'])),
      'timeout-minutes': z.number(),
      strategy: z.object({ matrix: z.record(z.string(), z.array(z.unknown())) }).optional(),
      steps: z.array(stepSchema),
    }),
  ),
})

/** What may be written, and by which job. */
const writes: Readonly<Record<string, readonly string[]>> = {
  'release.yml image': ['packages'],
  'release.yml publish': ['contents', 'id-token', 'packages'],
}

describe.each(readdirSync(folder))('%s', (name) => {
  const text = readFileSync(join(folder, name), 'utf8')
  const { jobs, on } = workflowSchema.parse(parse(text))
  const steps = Object.values(jobs).flatMap((job) => job.steps)

  test('pins each action by its commit and names the version beside it', () => {
    const lines = text.split('\n').filter((line) => /\buses:/.test(line))
    expect(lines.filter((line) => !/uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line))).toEqual([])
  })

  test('gives each job only the rights that it needs, and leaves no key behind in the checkout', () => {
    for (const [job, { permissions }] of Object.entries(jobs)) {
      const written = Object.keys(permissions).filter((right) => permissions[right] === 'write')
      expect([job, ...written]).toEqual([job, ...(writes[`${name} ${job}`] ?? [])])
    }
    const checkouts = steps.filter(({ uses }) => uses?.startsWith('actions/checkout@'))
    expect(checkouts.filter((step) => step.with?.['persist-credentials'] !== false)).toEqual([])
    expect(JSON.stringify(on)).not.toContain('pull_request_target')
  })

  test('hands texts to a shell by its environment alone; a matrix is our own', () => {
    expect(steps.filter(({ run }) => /\$\{\{(?! matrix\.\w+ \}\})/.test(run ?? ''))).toEqual([])
  })

  test('calls scripts and files that are there', () => {
    const called = text.matchAll(/npm run ([\w:-]+)|node ((?:test|scripts|bench)\/[\w./-]+)/g)
    expect(
      [...called].filter(([, script, file]) =>
        file === undefined ? !scripts.includes(script ?? '') : !existsSync(join(root, file)),
      ),
    ).toEqual([])
  })
})

test('each form of an issue is one that the forge shows', () => {
  const forms = readdirSync(join(root, '.github', 'ISSUE_TEMPLATE')).filter((name) => name !== 'config.yml')
  const formSchema = z.object({
    name: z.string(),
    description: z.string(),
    body: z
      .array(
        z.object({
          type: z.enum(['input', 'textarea', 'dropdown']),
          id: z.string(),
          attributes: z.object({ label: z.string() }),
        }),
      )
      .min(1),
  })
  for (const form of forms)
    expect(() => formSchema.parse(parse(readFileSync(join(root, '.github', 'ISSUE_TEMPLATE', form), 'utf8'))), form).not.toThrow()
})
