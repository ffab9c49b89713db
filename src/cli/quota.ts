// `millrace quota`: credits left at the service, and what was spent and reserved here.
import { openDatabase } from '../db/connect.ts'
import { assertMigrated } from '../db/migrate.ts'
import { discoverCredits } from '../check/discover.ts'
import { readStatus } from '../reads/status.ts'
import type { Handler } from './command-spec.ts'
import { discoverRequest } from './discovery.ts'
import { formatNumber } from './output.ts'

export const handle: Handler = async (invocation) => {
  const { output } = invocation
  const request = discoverRequest(invocation)
  const credits = await discoverCredits(request)
  const database = await openDatabase({
    databaseUrl: request.settings.databaseUrl,
    home: request.settings.home,
    maxConnections: 2,
  })
  try {
    await assertMigrated(database, { folders: [], allowUnknown: true })
    const { quota } = await readStatus(database.kysely, [])
    output.event({ event: 'summary', command: 'quota', service: credits, spent: quota })
    output.line(
      credits?.remaining === null || credits === null
        ? 'The service does not tell the credits left.'
        : `The service has ${formatNumber(credits.remaining)} credits left.`,
    )
    output.table(
      ['spent here', 'account', 'month', 'reports', 'used', 'reserved'],
      quota.map((row) => [
        row.pipeline,
        row.account,
        row.month,
        formatNumber(row.reports),
        formatNumber(row.used),
        formatNumber(row.reserved),
      ]),
    )
    return 0
  } finally {
    await database.close()
  }
}
