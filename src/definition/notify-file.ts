// notify.yaml: who gets which alarms. Every mistake has line and column; a text that looks like an address or a key is never shown.
import { existsSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { z } from 'zod'
import { type AlarmRoutes, notifySchema, receiverKinds } from '../core/alarm-routes.ts'
import { readByHand } from '../core/regular-file.ts'
import { type Path, problemAt, problemsOf, readYaml, type YamlFile } from './yaml-file.ts'
import { assertNoProblems, type Problem, sortProblems, suggest } from './problem.ts'

type Written = z.infer<typeof notifySchema>

/** Reads the file beside the folder of pipelines. `routes` null: no file, or a mistake in it. @param pipelines all names, to find a route for an unknown one; null: not all are known */
export const readNotifyFile = async (pipelinesFolder: string, pipelines: readonly string[] | null) => {
  const file = join(dirname(pipelinesFolder), 'notify.yaml')
  if (!existsSync(file)) return { routes: null, problems: [] }
  return checkNotifyFile(basename(file), readByHand(file), pipelines)
}

/** The same; throws DEFINITION naming every mistake with file, line and column. */
export const loadNotifyFile = async (pipelinesFolder: string, pipelines: readonly string[] | null) =>
  assertNoProblems(await readNotifyFile(pipelinesFolder, pipelines), 'routes of alarms').routes

/** @param pipelines names that routes may name; null: they are not checked */
export const checkNotifyFile = (file: string, text: string, pipelines: readonly string[] | null) => {
  const { yaml, problems } = readYaml(file, text)
  if (yaml === null) return { routes: null, problems }
  const shown = withoutSecrets(yaml)
  const parsed = notifySchema.safeParse(yaml.value)
  const wrong = parsed.success ? namesOf(yaml, parsed.data, pipelines) : problemsOf(parsed.error.issues, notifySchema, shown)
  const all = sortProblems([...problems, ...wrong])
  return { routes: parsed.success && all.length === 0 ? routesOf(yaml, parsed.data) : null, problems: all }
}

/** A single value in place of a list is found at its own path, without the index. */
const writtenAt = (yaml: YamlFile, path: Path): Path =>
  path.at(-1) === 0 && yaml.found(path) === 'nothing' && yaml.written(path.slice(0, -1)) !== null ? path.slice(0, -1) : path

/** Hides values: a person may write an address or a key in place of a variable's name, which must not reach a log. */
const withoutSecrets = (yaml: YamlFile): YamlFile => ({
  ...yaml,
  written: (path) => yaml.written(writtenAt(yaml, path)),
  found: (path) => {
    const found = yaml.found(writtenAt(yaml, path))
    const isAddress = path[0] === 'receivers' && !['a map', 'a list', 'nothing'].includes(found)
    return isAddress ? 'something else (not shown, it may be a secret; put it into the environment)' : found
  },
})

const namesOf = (yaml: YamlFile, { receivers, routes }: Written, pipelines: readonly string[] | null): Problem[] => {
  const known = [...Object.keys(receivers), ...receiverKinds]
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
  const [from, to] = ['from', 'to'].map((end) => yaml.written(['quiet_hours', end]))
  return [
    ...routes.flatMap((route, index) => [
      ...missing(['routes', index, 'to'], 'receiver', route.to, known),
      ...(pipelines === null ? [] : missing(['routes', index, 'pipeline'], 'pipeline', route.pipelines ?? [], pipelines)),
    ]),
    ...((from === null) !== (to === null)
      ? [problemAt(yaml, ['quiet_hours'], 'quiet hours need both from and to, or days alone.')]
      : []),
  ]
}

const routesOf = (yaml: YamlFile, { receivers, routes, quiet_hours }: Written): AlarmRoutes => {
  const at = (path: Path): string => {
    const { line, column } = yaml.place(path)
    return `${yaml.file}:${line}:${column}`
  }
  return {
    receivers: Object.entries(receivers).map(([one, spec]) => ({ ...spec, name: one, at: at(['receivers', one]) })),
    routes: routes.map((route, index) => ({ ...route, at: at(['routes', index]) })),
    quietHours: quiet_hours ?? null,
  }
}
