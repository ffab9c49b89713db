// `millrace migrate`: migrations, then the bi views of every definition.
import { createLog } from '../core/log.ts'
import { migrateAndPublish } from '../pipeline/migrate-and-publish.ts'
import type { Handler } from './command-spec.ts'
import { pipelinesFolder, settingsOf } from './runtime.ts'

export const handle: Handler = async (invocation) => {
  const { output, options } = invocation
  const settings = settingsOf(invocation)
  const dryRun = options['dryRun'] === true
  const { applied, published, statements, display } = await migrateAndPublish({
    settings,
    pipelinesFolder: pipelinesFolder(invocation),
    dryRun,
    log: createLog(settings.raw['MILLRACE_LOG_LEVEL']),
  })
  for (const [migration, sql] of statements) output.event({ event: 'sql', migration, statements: sql })
  output.event({ event: 'summary', command: 'migrate', dry_run: dryRun, applied, published })
  output.line(`Warehouse ${display}`)
  for (const name of applied) {
    output.line(`${dryRun ? '-- would apply' : 'applied'} ${name}`)
    for (const statement of statements.get(name) ?? []) output.line(`${statement.trim()};\n`)
  }
  if (applied.length === 0) output.line('Every migration is applied already.')
  if (!dryRun) output.line(`Published: ${published.map((pipeline) => `bi.${pipeline}`).join(', ') || 'nothing'}.`)
  return 0
}
