// `millrace superset URL`: the warehouse's connection, datasets and dashboards in a Superset that runs already.
import { isPrivate, plainAddress } from '../core/address.ts'
import type { Settings } from '../core/env.ts'
import { EtlError } from '../core/errors.ts'
import { type Secret, secret } from '../core/redact.ts'
import { loadDashboards } from '../definition/dashboards.ts'
import { loadMarts } from '../definition/marts.ts'
import { loadSemantics } from '../definition/semantic-model.ts'
import { describedViews } from '../publish/view-columns.ts'
import { martFolders } from '../run/known-marts.ts'
import { dashboardFolders, openDefinitions, semanticFolders } from '../run/open-runtime.ts'
import { provisionSuperset } from '../semantic/superset/provision-superset.ts'
import { defaultConnection } from '../semantic/superset/superset-bundle.ts'
import { openSuperset } from '../semantic/superset/superset-client.ts'
import { pipelinesFolder, settingsOf } from './command-runtime.ts'
import type { Handler } from './command-spec.ts'

const passwordName = 'MILLRACE_SUPERSET_PASSWORD'
const warehouseName = 'MILLRACE_SUPERSET_DATABASE_URL'

/** Running it again changes what differs. */
export const superset: Handler = async (invocation) => {
  const { options, output, signal } = invocation
  const settings = settingsOf(invocation)
  const url = addressOf(invocation.args[0] ?? settings.raw['MILLRACE_SUPERSET_URL'])
  const folder = pipelinesFolder(invocation)
  const { definitions } = await openDefinitions(folder, [])
  const views = describedViews(definitions, await loadMarts(martFolders(folder)))
  const dashboards = await loadDashboards(dashboardFolders(folder))
  const model = await loadSemantics(semanticFolders(folder))
  const warehouse = warehouseOf(settings)
  const password = passwordOf(settings)
  const client = await openSuperset({ url, user: settings.raw['MILLRACE_SUPERSET_USER'] || 'admin', password, signal })
  const connection = String(options['connection'] ?? defaultConnection)
  const result = await provisionSuperset({
    client,
    connection,
    warehouse,
    views,
    model,
    definitions,
    dashboards,
    tell: output.note,
  })
  const shown = result.dashboards.map(({ title, slug, isNew }) => ({
    title,
    url: `${url}/superset/dashboard/${slug}/`,
    is_new: isNew,
  }))
  output.summary('superset', {
    connection,
    datasets: result.datasets,
    charts: result.charts,
    dashboards: shown,
    skipped: result.skipped,
  })
  for (const one of shown) output.line(`${one.title}: ${one.url}`)
  for (const text of result.skipped) output.line(`left out ${text}.`)
  return result.skipped.length > 0 && shown.length === 0 ? 1 : 0
}

/** Without a slash at the end. A password goes over it, so it is https but on this machine and in a network of containers. */
const addressOf = (text: string | undefined): string => {
  if (!text) throw new EtlError('USAGE', 'Which Superset? Name its address: `millrace superset https://superset.example.com`.')
  const url = plainAddress(text)
  if (url === null)
    throw new EtlError(
      'USAGE',
      `'${URL.parse(text)?.host || text}' is no address of Superset, expected for example https://superset.example.com.`,
    )
  if (!isPrivate(url) && url.hostname.includes('.'))
    throw new EtlError('USAGE', `${url.origin} would carry a password in the open; use its https address.`)
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
}

const passwordOf = ({ raw }: Settings): Secret => {
  const text = raw[passwordName]
  if (text) return secret(passwordName, text)
  throw new EtlError(
    'CONFIGURATION',
    `${passwordName} is not set; put there the password of MILLRACE_SUPERSET_USER (admin), or name a file with ${passwordName}_FILE.`,
  )
}

/** As SQLAlchemy writes it. Not DATABASE_URL: that login may write, and a reader of dashboards may not. */
const warehouseOf = ({ raw }: Settings): Secret => {
  const text = raw[warehouseName]
  if (!text)
    throw new EtlError(
      'CONFIGURATION',
      `${warehouseName} is not set; put there the warehouse as Superset reaches it, with a login that only reads: postgres://superset:…@host:5432/warehouse ` +
        '(create role superset login password … in role bi_reader; then millrace migrate).',
    )
  const url = URL.parse(text)
  if (url === null || !/^postgres(ql)?:$/.test(url.protocol))
    throw new EtlError(
      'CONFIGURATION',
      `${warehouseName} is not an address such as postgres://superset:password@host:5432/warehouse.`,
    )
  if (url.password) secret(warehouseName, decodeURIComponent(url.password))
  return secret(warehouseName, text.replace(/^postgres(ql)?:/, 'postgresql+psycopg2:'))
}
