// The compose file at the root: what it lets out, what its containers may do, and that every setting it wants is told of.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Ajv } from 'ajv'
import { parse } from 'yaml'
import { z } from 'zod'

const root = join(import.meta.dirname, '..', '..')
const text = readFileSync(join(root, 'docker-compose.yml'), 'utf8')
const service = z.looseObject({
  image: z.string(),
  build: z.unknown().optional(),
  read_only: z.boolean().optional(),
  cap_drop: z.array(z.string()).optional(),
  security_opt: z.array(z.string()).optional(),
  profiles: z.array(z.string()).optional(),
  ports: z.array(z.string()).optional(),
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).optional(),
})
const { services } = z.object({ services: z.record(z.string(), service) }).parse(parse(text, { merge: true }))

test('nothing is published beyond this machine', () => {
  expect(Object.values(services).flatMap(({ ports }) => ports ?? [])).toEqual([
    '127.0.0.1:5432:5432',
    '127.0.0.1:7433:7433',
    '127.0.0.1:8088:8088',
  ])
})

test('our own containers write nothing but their volume, and have no right they do not need', () => {
  const own = Object.entries(services).filter(([, { build }]) => build === '.')
  expect(own.map(([name]) => name)).toEqual(['migrate', 'schedule', 'superset-dashboards'])
  for (const [name, one] of own)
    expect([name, one.read_only, one.cap_drop, one.security_opt]).toEqual([name, true, ['ALL'], ['no-new-privileges:true']])
})

test('Superset comes with its profile alone, and nothing waits for what is not there', () => {
  expect(Object.entries(services).flatMap(([name, { profiles }]) => (profiles === undefined ? [] : [name]))).toEqual([
    'superset-reader',
    'superset',
    'superset-dashboards',
  ])
  for (const one of Object.values(services))
    for (const name of Object.keys(one.depends_on ?? {})) {
      const awaited = services[name]
      expect(awaited === undefined ? `${name} is not there` : (awaited.profiles ?? one.profiles)).toEqual(one.profiles)
    }
})

test('every setting is in .env.example, and without Superset only the password of PostgreSQL has to be set', () => {
  const example = readFileSync(join(root, '.env.example'), 'utf8')
  const settings = [...text.matchAll(/(?<!\$)\$\{([A-Z_]+)(:[-?])?/g)]
  expect(
    [...new Set(settings.map(([, name = '']) => name))].filter((name) => !new RegExp(`^(# )?${name}=`, 'm').test(example)),
  ).toEqual([])
  expect([...new Set(settings.filter(([, , mark]) => mark === ':?').map(([, name]) => name))]).toEqual(['POSTGRES_PASSWORD'])
})

const files = ['docker-compose.yml', 'templates/warehouse/compose.yaml']

/** What the Compose specification publishes as schema/compose-spec.json, at commit 170098b of June 2026; its licence is Apache-2.0. */
const official = (): ((file: unknown) => readonly string[]) => {
  const published = z.looseObject({}).parse(JSON.parse(readFileSync(join(root, 'test', 'support', 'compose-spec.json'), 'utf8')))
  // Its own name of draft-07 has another scheme than the validator's.
  const { $schema: _, ...schema } = published
  const validate = new Ajv({ strict: false, allErrors: true, validateFormats: false }).compile(schema)
  return (file) =>
    validate(file) ? [] : (validate.errors ?? []).map((one) => `${one.instancePath}: ${JSON.stringify(one.params)}`)
}

test.each(files)(
  '%s is valid by the official schema of Compose, which refuses a misspelt key and a condition that is none',
  (file) => {
    const problemsOf = official()
    const text = readFileSync(join(root, file), 'utf8')
    const wrong = text.replace('restart:', 'restrat:').replace('service_healthy', 'service_health')
    expect(problemsOf(parse(text, { merge: true }))).toEqual([])
    const problems = problemsOf(parse(wrong, { merge: true })).join('\n')
    expect(problems).toContain('{"additionalProperty":"restrat"}')
    expect(problems).toContain('/services/migrate/depends_on/postgres/condition')
  },
)

test.each(files)('%s: the scheduler starts once the warehouse is migrated', (file) => {
  const found = z
    .object({
      services: z.record(z.string(), service.partial({ image: true }).extend({ command: z.array(z.string()).optional() })),
    })
    .parse(parse(readFileSync(join(root, file), 'utf8'), { merge: true }))
  expect(found.services['schedule']?.depends_on).toEqual({ migrate: { condition: 'service_completed_successfully' } })
  expect(found.services['migrate']).toMatchObject({ command: ['migrate'], read_only: true, cap_drop: ['ALL'] })
  expect(found.services['migrate']?.depends_on).toEqual({ postgres: { condition: 'service_healthy' } })
})

test('in a warehouse of its own, migrate reads the settings of .env and the receipts of purchases, as the scheduler does', () => {
  const own = z.looseObject({ env_file: z.string().optional(), volumes: z.array(z.string()).optional() })
  const compose = readFileSync(join(root, 'templates', 'warehouse', 'compose.yaml'), 'utf8')
  const { migrate, schedule } = z
    .object({ services: z.object({ migrate: own, schedule: own }) })
    .parse(parse(compose, { merge: true })).services
  expect([migrate.env_file, migrate.volumes]).toEqual([schedule.env_file, schedule.volumes])
})

test.each([
  ...files,
  ...['migrate', 'schedule', 'worker', 'cronjob'].map((name) => `templates/warehouse/deploy/kubernetes/${name}.yaml`),
])(
  '%s: whoever works on a warehouse sees its landings: `migrate --as` reads what was bought from the receipts beside them',
  (file) => {
    const text = readFileSync(join(root, file), 'utf8')
    const parts = /^services:/m.test(text)
      ? Object.entries(
          z.looseObject({ services: z.record(z.string(), z.unknown()) }).parse(parse(text, { merge: true })).services,
        ).filter(([name]) => ['migrate', 'schedule'].includes(name))
      : [[file, text]]
    for (const [name, part] of parts)
      expect(JSON.stringify(part), String(name)).toMatch(/millrace:\/var\/lib\/millrace|claimName: millrace-home/)
  },
)
