// `millrace migrate`: migrations, then the bi views of every definition.
import { EtlError } from '../core/errors.ts'
import { createLog } from '../core/log.ts'
import { type Declaration, type Settled, takenUpWords } from '../pipeline/identity.ts'
import { migrateAndPublish } from '../pipeline/migrate-and-publish.ts'
import type { Handler } from './command-spec.ts'
import { formatNumber, some } from './output.ts'
import { wholeNumber } from './options.ts'
import { pipelinesFolder, settingsOf } from './runtime.ts'

/** Exit code 0 also where nothing was pending. */
export const handle: Handler = async (invocation) => {
  const { output, options } = invocation
  const settings = settingsOf(invocation)
  const dryRun = options['dryRun'] === true
  const { applied, published, removed, kept, statements, display, declared, attributes } = await migrateAndPublish({
    settings,
    pipelinesFolder: pipelinesFolder(invocation),
    dryRun,
    as: declarationOf(options['as']),
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
  output.event({
    event: 'summary',
    command: 'migrate',
    dry_run: dryRun,
    applied,
    published,
    removed,
    attributes,
    ...identityWords(declared),
  })
  output.line(`Warehouse ${display}`)
  for (const name of applied) {
    output.line(`${dryRun ? '-- would apply' : 'applied'} ${name}`)
    for (const statement of statements.get(name) ?? []) output.line(`${statement.trim()};\n`)
  }
  if (applied.length === 0) output.line('Every migration is applied already.')
  if (!dryRun) output.line(`Published: ${published.map((pipeline) => `bi.${pipeline}`).join(', ') || 'nothing'}.`)
  if (attributes.changed + attributes.ended > 0)
    output.line(`Attributes: ${some(attributes.changed, 'value')} changed, ${formatNumber(attributes.ended)} ended.`)
  for (const name of removed) output.line(`Removed bi.${name}: its file is gone.`)
  for (const name of kept)
    output.note(`bi.${name} stays although its file is gone: something else reads it. Drop that first, then migrate again.`)
  if (declared !== null) for (const line of declaredLines(declared)) output.line(line)
  return 0
}

const declarations = ['restored', 'moved', 'clone'] as const

const declarationOf = (text: unknown): Declaration | null => {
  if (text === undefined) return null
  const found = declarations.find((one) => one === text)
  if (found === undefined)
    throw new EtlError(
      'USAGE',
      `--as is '${String(text)}'; write --as restored, --as moved or --as clone (docs/operations.md, Backup and restore).`,
    )
  return found
}

const identityWords = (declared: Settled | null) =>
  declared === null
    ? {}
    : {
        warehouse: declared.identity.id,
        epoch: declared.identity.epoch,
        taken_up: declared.takenUp.purchases + declared.takenUp.answers,
      }

const declaredLines = ({ identity, takenUp }: Settled): string[] => {
  const words = takenUpWords(takenUp)
  return [`This database is warehouse ${identity.id}, epoch ${identity.epoch}.`, ...(words === null ? [] : [words])]
}
