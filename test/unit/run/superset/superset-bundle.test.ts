// The bundle for Superset's own commands: ids that last, charts that change with their definition, nothing offered for SUM that does not add up.
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { loadDashboards, parseDashboard } from '../../../../src/definition/dashboards.ts'
import { loadMarts } from '../../../../src/definition/marts.ts'
import { loadSemantics } from '../../../../src/definition/semantic-model.ts'
import { describedViews } from '../../../../src/publish/view-columns.ts'
import { type BundleWork, supersetBundle } from '../../../../src/semantic/superset/superset-bundle.ts'
import { datasetDetails, withOwn } from '../../../../src/semantic/superset/provision-superset.ts'
import { zipOf } from '../../../../src/semantic/superset/superset-client.ts'
import { shippedDefinitions } from '../../../support/definitions.ts'
import { readStoredZip } from '../../../support/read-zip.ts'

const definitions = await shippedDefinitions()
const work: BundleWork = {
  connection: 'Millrace',
  views: describedViews(definitions, await loadMarts([])),
  model: await loadSemantics([]),
  definitions,
  dashboards: await loadDashboards([]),
}
const uuids = (bundle: ReturnType<typeof supersetBundle>): ReadonlyMap<string, string> =>
  new Map(
    [...bundle.files]
      .filter(([path]) => path !== 'metadata.yaml')
      .map(([path, text]) => [path, z.uuid().parse(/^uuid: "(.+)"$/m.exec(text)?.[1])]),
  )
const withChart = (change: (text: string) => string): BundleWork => {
  const { dashboard } = parseDashboard(
    'own.yaml',
    change(
      `dashboard: Own\npipeline: keywords\ncharts:\n  - { chart: "A/../ü 'x'", view: keyword_months, kind: table, columns: [month, clicks] }\n  - { chart: B, view: keyword_months, kind: line, period: month, measures: { Clicks: sum(clicks) } }\n`,
    ),
  )
  if (dashboard === null) throw new Error('the file is right')
  return { ...work, dashboards: [dashboard] }
}

test('ids last over two makings and differ between connections; a changed chart is another one, for no command of Superset changes one', () => {
  const first = uuids(supersetBundle(work))
  expect(uuids(supersetBundle(work))).toEqual(first)
  expect(new Set(first.values()).size).toBe(first.size)
  const others = new Set(uuids(supersetBundle({ ...work, connection: 'Acme' })).values())
  expect([...first.values()].filter((one) => others.has(one))).toEqual([])
  const [old, changed] = [
    supersetBundle(withChart((text) => text)),
    supersetBundle(withChart((text) => text.replace('sum(clicks)', 'max(clicks)'))),
  ]
  const now = uuids(changed)
  const moved = [...uuids(old)].filter(([path, uuid]) => now.get(path) !== uuid).map(([path]) => path)
  expect(moved).toEqual(['charts/millrace-own/02-b.yaml'])
})

test('paths are plain whatever charts and connections are called, and the archive holds every file as it is', () => {
  const { files } = supersetBundle({ ...withChart((text) => text), connection: '../Ä & "B"' })
  for (const path of files.keys()) expect(path).toMatch(/^(?:metadata|(?:datasets|charts|dashboards)(?:\/[a-z0-9_-]+)+)\.yaml$/)
  const archive = readStoredZip(Buffer.from(zipOf(files, 'millrace')))
  expect(new Map([...archive].map(([path, text]) => [path.replace(/^millrace\//, ''), text]))).toEqual(files)
})

const columnsOf = (bundle: ReturnType<typeof supersetBundle>, view: string): string[] => {
  const dataset = z.object({ columns: z.array(z.object({ column_name: z.string() })) })
  return dataset
    .parse(parse(bundle.files.get(`datasets/millrace/${view}.yaml`) ?? ''))
    .columns.map(({ column_name }) => column_name)
}

test('a figure that does not add up is a metric and no column that could be summed, unless a table lists it', () => {
  const bundle = supersetBundle(work)
  expect(columnsOf(bundle, 'traffic_and_engagement')).not.toContain('desktop_unique_visitors')
  expect(columnsOf(bundle, 'traffic_and_engagement')).toEqual(
    expect.arrayContaining(['all_traffic_visits', 'is_final', 'country']),
  )
  expect(columnsOf(bundle, 'keyword_domains')).not.toContain('searches')
  expect(columnsOf(bundle, 'domain_share_of_voice')).not.toContain('clicks_followed')
  const listed = supersetBundle(withChart((text) => text.replace('[month, clicks]', '[month, keywords]')))
  expect(columnsOf(listed, 'keyword_months')).toContain('keywords')
})

test('a dashboard whose mart, column or pipeline is gone is left out with the reason, and the others stay', () => {
  const without = (name: string) => work.views.filter((view) => view.name !== name)
  const gone = supersetBundle({ ...work, views: without('keyword_gap') })
  expect(gone.skipped).toEqual(['Keywords: bi.keyword_gap does not exist; run `millrace migrate`'])
  expect(gone.dashboards.map(({ slug }) => slug)).not.toContain('millrace-keywords')
  expect([...gone.files.keys()].filter((path) => path.includes('millrace-keywords'))).toEqual([])
  const fewer = work.views.map((view) =>
    view.name === 'keyword_gap' ? { ...view, columns: view.columns.filter(({ name }) => name !== 'volume') } : view,
  )
  expect(supersetBundle({ ...work, views: fewer }).skipped[0]).toMatch(
    /'Keywords that another domain has' reads bi\.keyword_gap\.volume/,
  )
  expect(supersetBundle({ ...work, definitions: [] }).skipped).toHaveLength(4)
})

test('labels of tiles and SQL of charts hold nothing that Superset takes for a template', () => {
  const problems = (change: (text: string) => string) => {
    const text =
      "dashboard: D\npipeline: keywords\ncharts:\n  - { chart: T, view: v, kind: tile, period: month, measures: { 'Label': 'sum(x)' } }\n"
    return parseDashboard('d.yaml', change(text)).problems.map(({ message }) => message)
  }
  expect(problems((text) => text.replace('Label', 'a]b'))).toEqual([expect.stringContaining('cannot be shown on a tile')])
  expect(problems((text) => text.replace('sum(x)', 'sum({{ x }})'))).toEqual([expect.stringContaining('takes for a template')])
  expect(problems((text) => text)).toEqual([])
})

test('a metric of ours that was renamed goes, one of a person stays, and so do calculated columns and labels', () => {
  const details = datasetDetails.parse({
    result: {
      uuid: '0b7c7a52-5f1e-5d7c-8d2e-1a2b3c4d5e6f',
      columns: [
        { column_name: 'domain', verbose_name: 'Site', expression: '', extra: null },
        { column_name: 'left_the_view', expression: null, extra: '{}' },
        { column_name: 'mine', expression: 'upper(domain)', extra: 'no JSON' },
      ],
      metrics: [
        { metric_name: 'old_name', expression: 'sum(1)', extra: '{"certification":{"certified_by":"Millrace","details":"x"}}' },
        { metric_name: 'mine', expression: 'sum(2)', extra: '{"certification":{"certified_by":"Ann"}}' },
        { metric_name: 'domain_pairs', expression: 'sum(3)', extra: null },
      ],
    },
  }).result
  const adapt: BundleWork['adapt'] = (dataset) => withOwn(dataset, dataset.table_name === 'domain_pairs' ? details : undefined)
  const { files } = supersetBundle({ ...work, adapt })
  const dataset = parse(files.get('datasets/millrace/domain_pairs.yaml') ?? '')
  const named = (name: string, expression: string) => expect.objectContaining({ [name]: expect.any(String), expression })
  expect(dataset.uuid).toBe(details.uuid)
  expect(dataset.metrics.map((one: { metric_name: string }) => one.metric_name)).toEqual([
    'domain_pairs',
    'domains_to_compare',
    'mine',
  ])
  expect(dataset.metrics).toContainEqual(named('metric_name', 'sum(1)'))
  expect(dataset.columns.map((one: { column_name: string }) => one.column_name)).toEqual(['domain', 'other_domain', 'mine'])
  expect(dataset.columns[0].verbose_name).toBe('Site')
})
