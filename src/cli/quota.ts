// `millrace quota`: credits left at each service, and what was spent and reserved here.
import { openDatabase } from '../db/connect.ts'
import { assertMigrated } from '../db/migrate.ts'
import { type Answer, discoverCredits } from '../check/discover.ts'
import type { Credits } from '../extract/api.ts'
import { readStatus } from '../reads/status.ts'
import type { Handler } from './command-spec.ts'
import { discoverRequest } from './discovery.ts'
import { formatNumber } from './output.ts'

export const handle: Handler = async (invocation) => {
  const { output } = invocation
  const request = discoverRequest(invocation)
  const database = await openDatabase({
    databaseUrl: request.settings.databaseUrl,
    home: request.settings.home,
    maxConnections: 2,
  })
  try {
    await assertMigrated(database, { folders: [], allowUnknown: true })
    const answers = await discoverCredits(request, database)
    const { quota } = await readStatus(database.kysely, [])
    const [first] = answers
    const services = answers.length > 1 ? { services: Object.fromEntries(answers.map(({ api, said }) => [api, said])) } : {}
    output.event({ event: 'summary', command: 'quota', service: first?.said ?? null, ...services, spent: quota })
    for (const answer of answers) output.line(creditsLeft(answer, answers.length > 1))
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

const creditsLeft = ({ api, said }: Answer<Credits>, isOneOfSeveral: boolean): string => {
  const whose = isOneOfSeveral ? `The service ${api}` : 'The service'
  const remaining = said?.remaining ?? null
  return remaining === null ? `${whose} does not tell the credits left.` : `${whose} has ${formatNumber(remaining)} credits left.`
}
