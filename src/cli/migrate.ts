// `millrace migrate`: migrations, then the bi views of every definition.
import { createLog } from '../core/log.ts'
import { migrateAndPublish } from '../pipeline/migrate-and-publish.ts'
import type { Handler } from './command-spec.ts'
import { wholeNumber } from './options.ts'
import { pipelinesFolder, settingsOf } from './runtime.ts'

export const handle: Handler = async (invocation) => {
  const { output, options } = invocation
  const settings = settingsOf(invocation)
  const dryRun = options['dryRun'] === true
  const { applied, published, removed, kept, statements, display } = await migrateAndPublish({
    settings,
    pipelinesFolder: pipelinesFolder(invocation),
    dryRun,
    log: createLog(settings.raw['MILLRACE_LOG_LEVEL']),
    patience: {
      waitMs: wholeNumber(String(options['wait']), (text) => `--wait '${text}' is not a number of seconds, such as 60.`) * 1_000,
      onWait: (message) => {
        output.note(message)
        output.event({ event: 'waiting', message })
      },
    },
  })
  for (const [migration, sql] of statements) output.event({ event: 'sql', migration, statements: sql })
  output.event({ event: 'summary', command: 'migrate', dry_run: dryRun, applied, published, removed })
  output.line(`Warehouse ${display}`)
  for (const name of applied) {
    output.line(`${dryRun ? '-- would apply' : 'applied'} ${name}`)
    for (const statement of statements.get(name) ?? []) output.line(`${statement.trim()};\n`)
  }
  if (applied.length === 0) output.line('Every migration is applied already.')
  if (!dryRun) output.line(`Published: ${published.map((pipeline) => `bi.${pipeline}`).join(', ') || 'nothing'}.`)
  for (const name of removed) output.line(`Removed bi.${name}: its file is gone.`)
  for (const name of kept)
    output.note(`bi.${name} stays although its file is gone: something else reads it. Drop that first, then migrate again.`)
  return 0
}
