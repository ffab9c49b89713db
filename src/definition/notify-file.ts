// notify.yaml: who gets which alarms. Every mistake with its line and column; what looks like an address or a key is never shown.
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { z } from 'zod'
import { alarmKinds, type AlarmKind, severities } from '../core/alarm.ts'
import type { AlarmRoutes, QuietHours, ReceiverSpec, Route, Weekday } from '../core/alarm-routes.ts'
import { problemsOf } from './issues.ts'
import { assertNoProblems, type Problem, sortProblems, suggest } from './problem.ts'
import { type Path, problemAt, readYaml, type YamlFile } from './yaml-file.ts'

/** Receivers that the environment alone makes: usable in routes by these names. */
export const receiversOfEnvironment = ['slack', 'webhook', 'pagerduty', 'email'] as const

const weekdays = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'] as const
const kinds = Object.keys(alarmKinds) as [AlarmKind, ...AlarmKind[]]

/** One stands for a list of it. */
const oneOrMore = <T extends z.ZodType>(item: T) =>
  z.preprocess((value) => (Array.isArray(value) ? value : [value]), z.array(item).min(1, 'at least one'))
const name = z.string().regex(/^[a-z][a-z0-9_-]{0,40}$/, 'a name of lower-case letters, digits, _ and -')
const variable = z.string().regex(/^[A-Z][A-Z0-9_]*$/, 'the name of a variable of the environment, such as SLACK_DATA_TEAM')
const time = z.string().regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'a time such as "22:00"')
const zone = z.string().refine((text) => {
  try {
    return Intl.DateTimeFormat(undefined, { timeZone: text }) !== null
  } catch {
    return false
  }
}, 'a time zone such as Europe/Berlin')

const receiver = z.union([
  z.strictObject({ slack: variable }),
  z.strictObject({ webhook: variable, key: variable.optional() }),
  z.strictObject({ pagerduty: variable }),
  z.strictObject({ email: oneOrMore(z.email('an e-mail address')) }),
])

const routeSchema = z.strictObject({
  to: oneOrMore(name),
  kind: oneOrMore(z.enum(kinds)).optional(),
  severity: oneOrMore(z.enum(severities)).optional(),
  pipeline: oneOrMore(z.string().min(1)).optional(),
  tags: z.record(z.string(), z.string()).optional(),
})

const fileSchema = z.strictObject({
  receivers: z.record(name, receiver).default({}),
  quiet_hours: z
    .strictObject({
      from: time.optional(),
      to: time.optional(),
      days: oneOrMore(z.enum(weekdays)).optional(),
      time_zone: zone,
      but: oneOrMore(z.enum(severities)).default(['critical']),
    })
    .optional(),
  routes: z.array(routeSchema).min(1, 'at least one route: { to: [slack] } tells everything'),
})
type Written = z.infer<typeof fileSchema>

/** The file beside the folder of pipelines; `routes` null: there is none, or something is wrong with it. @param pipelines names there are, so that a route for none is found; null: not all are known */
export const readNotifyFile = async (pipelinesFolder: string, pipelines: readonly string[] | null) => {
  const file = join(dirname(pipelinesFolder), 'notify.yaml')
  if (!existsSync(file)) return { routes: null, problems: [] }
  return checkNotifyFile(basename(file), await readFile(file, 'utf8'), pipelines)
}

/** The same; throws DEFINITION naming every mistake with file, line and column. */
export const loadNotifyFile = async (
  pipelinesFolder: string,
  pipelines: readonly string[] | null,
): Promise<AlarmRoutes | null> => {
  const { routes, problems } = await readNotifyFile(pipelinesFolder, pipelines)
  assertNoProblems(problems, 'routes of alarms')
  return routes
}

/** @param pipelines names that routes may name; null: they are not checked */
export const checkNotifyFile = (file: string, text: string, pipelines: readonly string[] | null) => {
  const { yaml, problems } = readYaml(file, text)
  if (yaml === null) return { routes: null, problems }
  const shown = withoutSecrets(yaml)
  const parsed = fileSchema.safeParse(yaml.value)
  const wrong = parsed.success ? namesOf(yaml, parsed.data, pipelines) : problemsOf(parsed.error.issues, fileSchema, shown)
  const all = sortProblems([...problems, ...wrong])
  return { routes: parsed.success && all.length === 0 ? routesOf(yaml, parsed.data) : null, problems: all }
}

/** One that stands for a list of it is found where it stands. */
const writtenAt = (yaml: YamlFile, path: Path): Path =>
  path.at(-1) === 0 && yaml.found(path) === 'nothing' && yaml.written(path.slice(0, -1)) !== null ? path.slice(0, -1) : path

/** An address or a key in place of a variable's name must not reach a log. */
const withoutSecrets = (yaml: YamlFile): YamlFile => ({
  ...yaml,
  written: (path) => yaml.written(writtenAt(yaml, path)),
  found: (path) => {
    const found = yaml.found(writtenAt(yaml, path))
    const isAddress = path[0] === 'receivers' && !['a map', 'a list', 'nothing'].includes(found)
    return isAddress ? 'something else (not shown, it may be a secret; put it into the environment)' : found
  },
})

const namesOf = (yaml: YamlFile, { receivers, routes, quiet_hours }: Written, pipelines: readonly string[] | null): Problem[] => {
  const known = [...Object.keys(receivers), ...receiversOfEnvironment]
  const missing = (path: Path, what: string, wanted: readonly string[], there: readonly string[]): Problem[] =>
    wanted.flatMap((one, index) =>
      there.includes(one)
        ? []
        : [
            problemAt(
              yaml,
              yaml.found(path) === 'a list' ? [...path, index] : path,
              `there is no ${what} '${one}'.${suggest(one, there)}`,
            ),
          ],
    )
  const hours = quiet_hours !== undefined && (quiet_hours.from === undefined) !== (quiet_hours.to === undefined)
  return [
    ...routes.flatMap((route, index) => [
      ...missing(['routes', index, 'to'], 'receiver', route.to, known),
      ...(pipelines === null ? [] : missing(['routes', index, 'pipeline'], 'pipeline', route.pipeline ?? [], pipelines)),
    ]),
    ...(hours ? [problemAt(yaml, ['quiet_hours'], 'quiet hours need both from and to, or days alone.')] : []),
  ]
}

const routesOf = (yaml: YamlFile, { receivers, routes, quiet_hours }: Written): AlarmRoutes => {
  const at = (path: Path): string => {
    const { line, column } = yaml.place(path)
    return `${yaml.file}:${line}:${column}`
  }
  return {
    receivers: Object.entries(receivers).map(([one, spec]) => receiverOf(one, spec, at(['receivers', one]))),
    routes: routes.map(
      (route, index): Route => ({
        to: route.to,
        kinds: route.kind ?? null,
        severities: route.severity ?? null,
        pipelines: route.pipeline ?? null,
        tags: route.tags ?? {},
        at: at(['routes', index]),
      }),
    ),
    quietHours: quiet_hours === undefined ? null : quietOf(quiet_hours),
  }
}

const receiverOf = (one: string, spec: z.infer<typeof receiver>, at: string): ReceiverSpec => {
  if ('slack' in spec) return { name: one, at, kind: 'slack', variable: spec.slack }
  if ('pagerduty' in spec) return { name: one, at, kind: 'pagerduty', variable: spec.pagerduty }
  if ('webhook' in spec) return { name: one, at, kind: 'webhook', variable: spec.webhook, key: spec.key ?? null }
  return { name: one, at, kind: 'email', to: spec.email }
}

const minutesOf = (text: string): number => Number(text.slice(0, 2)) * 60 + Number(text.slice(3))

const quietOf = ({ from, to, days, time_zone, but }: NonNullable<Written['quiet_hours']>): QuietHours => ({
  hours: from === undefined || to === undefined ? null : { from: minutesOf(from), to: minutesOf(to) },
  days: (days ?? []).map((day) => (weekdays.indexOf(day) + 1) as Weekday),
  timeZone: time_zone,
  but,
})
