// `millrace migrate`: migrations, then the bi views of every definition. `millrace roles`: SQL for separate owner, loader and reader roles.
import { counted, formatNumber } from '../core/counted.ts'
import { usageError } from '../core/errors.ts'
import { rolesSql } from '../db/role-statements.ts'
import { type Settled, adoptedWords } from '../run/identity.ts'
import { migrateAndPublish, type MigrateResult } from '../run/migrate-and-publish.ts'
import { pipelinesFolder, settingsOf, wholeNumber } from './command-runtime.ts'
import type { Handler } from './command-spec.ts'
import type { Output } from './output.ts'

/** Exit code 0 also where nothing was pending. */
export const migrate: Handler = async (invocation) => {
  const { output, options } = invocation
  const settings = settingsOf(invocation)
  const dryRun = options['dryRun'] === true
  if (dryRun && options['as'] !== undefined) throw usageError('A dry run changes nothing, and --as does: leave one of them out.')
  const result = await migrateAndPublish({
    settings,
    pipelinesFolder: pipelinesFolder(invocation),
    dryRun,
    as: declarations.find((one) => one === options['as']) ?? null,
    patience: {
      waitMs: wholeNumber(String(options['wait']), (text) => `--wait '${text}' is not a number of seconds, such as 60.`) * 1_000,
      onWait: (message) => {
        output.note(message)
        output.event({ event: 'waiting', message })
      },
    },
  })
  const { applied, published, made, changed, leftOut, removed, statements, declared, attributes } = result
  for (const [migration, sql] of statements) output.event({ event: 'sql', migration, statements: sql })
  output.summary('migrate', {
    dry_run: dryRun,
    applied,
    published,
    made,
    changed,
    left_out: leftOut,
    removed,
    attributes,
    ...identityWords(declared),
  })
  output.line(`Warehouse ${result.display}`)
  printChanges(output, result, dryRun)
  for (const name of result.kept)
    output.note(`bi.${name} stays although its file is gone: something else reads it. Drop that first, then migrate again.`)
  if (options['as'] === 'moved-service') output.line('The service has moved: the next command that calls it records its address.')
  if (declared !== null) for (const line of declaredLines(declared)) output.line(line)
  return 0
}

const printChanges = (output: Output, result: MigrateResult, dryRun: boolean): void => {
  const { applied, statements, changed, leftOut, removed, attributes, published } = result
  // The pipelines' own views come first: people look for these.
  const place = (name: string): number => (published.includes(name) ? published.indexOf(name) : published.length)
  const made = result.made.toSorted((left, right) => place(left) - place(right))
  for (const name of applied) {
    output.line(`${dryRun ? '-- would apply' : 'applied'} ${name}`)
    for (const statement of statements.get(name) ?? []) output.line(`${statement.trim()};\n`)
  }
  if (made.length > 0) output.line(`New in bi: ${named(made)}.`)
  if (changed.length > 0) output.line(`Changed in bi: ${named(changed)}.`)
  if (leftOut.length > 0) output.line(`Left out of bi: ${named(leftOut)}. \`millrace check --all\` names what they lack.`)
  for (const name of removed) output.line(`Removed bi.${name}: its file is gone.`)
  const ofAttributes = attributes.changed + attributes.ended
  if (ofAttributes > 0)
    output.line(`Attributes: ${counted(attributes.changed, 'value')} changed, ${formatNumber(attributes.ended)} ended.`)
  if (applied.length + made.length + changed.length + leftOut.length + removed.length + ofAttributes > 0) return
  output.line(
    dryRun
      ? 'Every migration is applied already.'
      : 'Nothing to do: every migration is applied, and every view of bi is as it should be.',
  )
}

/** The first names and the number of the others; the data dictionary lists all. */
const named = (names: readonly string[]): string => {
  const [shown, rest] = [names.slice(0, mostNames), names.length - mostNames]
  return rest <= 0 ? shown.join(', ') : `${shown.join(', ')} and ${formatNumber(rest)} more`
}
const mostNames = 6

const declarations = ['restored', 'moved', 'clone', 'moved-service'] as const

const identityWords = (declared: Settled | null) =>
  declared === null
    ? {}
    : {
        warehouse: declared.identity.id,
        epoch: declared.identity.epoch,
        taken_up: declared.adopted.purchases + declared.adopted.answers,
      }

const declaredLines = ({ identity, adopted }: Settled): string[] => {
  const words = adoptedWords(adopted)
  return [`This database is warehouse ${identity.id}, epoch ${identity.epoch}.`, ...(words === null ? [] : [words])]
}

/** Prints SQL and runs none. */
export const roles: Handler = async ({ output }) => {
  const text = rolesSql()
  output.summary('roles', { sql: text })
  output.line(text)
  return 0
}
