// `millrace approve [PIPELINE…]`: shows purchases that cost more than usual, approves them, or withdraws an approval.
import { aboutCredits, counted, formatNumber, sum, sums } from '../core/counted.ts'
import { usageError } from '../core/errors.ts'
import type { Database } from '../db/connect.ts'
import { approve, withdraw } from '../ledger/approvals.ts'
import { stillBought } from '../ledger/approved-jobs.ts'
import { approveLists, type HeldList, heldLists } from '../ledger/lists.ts'
import { type NeededApproval, neededApprovals } from '../web/reads/read-approvals.ts'
import type { Status } from '../web/reads/read-status.ts'
import { assertKnownPipelines, personWith, withDatabase } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { fields, type Output } from './output.ts'

export const approveCommand: Handler = (invocation) =>
  withDatabase(invocation, async (database) => {
    const { args, options } = invocation
    if (options['withdraw'] === true && options['dryRun'] === true) throw usageError('--withdraw takes no --dry-run.')
    await assertKnownPipelines(database.kysely, invocation, args)
    if (options['withdraw'] === true) return withdrawApproved(invocation, database)
    const waiting = await neededApprovals(database.kysely, args)
    const held = await heldLists(database.kysely, args)
    if (options['dryRun'] === true) return show(invocation, waiting, held)
    const unpriced = new Set(waiting.flatMap(({ approval_id, credits }) => (credits === null ? [String(approval_id)] : [])))
    const approved = (await approve(database.kysely, args, personWith('approve'))).map((one) => ({
      ...one,
      credits: unpriced.has(String(one.approvalId)) ? null : one.credits,
    }))
    const lists = await approveLists(database.kysely, args, personWith('approve'))
    for (const one of approved) invocation.output.event({ event: 'approved', ...one })
    for (const one of lists) invocation.output.event({ event: 'list_approved', ...listEvent(one) })
    invocation.output.summary('approve', { approved: approved.length, ...totals(approved), lists: lists.length })
    for (const { pipeline, dimension, values, gone } of lists)
      invocation.output.line(
        `${pipeline}: the list of ${dimension} with ${counted(values, 'value')} (${formatNumber(gone)} gone): approved while its query gives these values.`,
      )
    if (approved.length + lists.length === 0) invocation.output.line(nothing(args))
    for (const { pipeline, units, reports, credits } of approved)
      invocation.output.line(
        `${pipeline}: ${counted(units, 'unit')}${reports === 0 ? '' : ` in ${counted(reports, 'report')}`}, ${aboutCredits(credits)}: approved.`,
      )
    if (approved.length > 0)
      invocation.output.line('The next `millrace run` buys them; a running `millrace schedule` does within a minute.')
    return 0
  })

const nothing = (pipelines: readonly string[]): string =>
  `Nothing${pipelines.length === 0 ? '' : ` of ${pipelines.join(', ')}`} waits for approval. What \`millrace plan\` marks with * waits after the next run.`

const show = ({ args, output }: Invocation, waiting: readonly NeededApproval[], held: readonly HeldList[]): number => {
  for (const one of waiting) output.event({ event: 'needs_approval', ...one })
  for (const one of held) output.event({ event: 'list_held', ...listEvent(one) })
  output.summary('approve', { dry_run: true, waiting: waiting.length, ...totals(waiting), lists: held.length })
  if (waiting.length + held.length === 0) output.line(nothing(args))
  if (waiting.length > 0) printWaiting(output, waiting)
  output.optionalTable(held, {
    'held list': ({ pipeline }) => pipeline,
    of: ({ dimension }) => dimension,
    values: ({ values }) => values,
    new: ({ came }) => came,
    gone: ({ gone }) => gone,
  })
  return 0
}

const listEvent = ({ heldSince, ...one }: HeldList) => ({ ...one, held_since: heldSince })

const printWaiting = (output: Output, waiting: readonly NeededApproval[]): void =>
  output.table(waiting, {
    'needs approval': ({ pipeline }) => pipeline,
    why: ({ reasons }) => Object.keys(reasons).join(', '),
    months: ({ from, to }) => (from === to ? from : `${from}..${to}`),
    ...fields('units', 'reports'),
    credits: ({ credits }) => credits ?? 'not known',
    'limit then': ({ allowed }) => allowed,
  })

const totals = (all: readonly Readonly<Record<'units' | 'reports' | 'credits', number | null>>[]) => ({
  ...sums(all, 'units', 'reports'),
  credits: all.some(({ credits }) => credits === null) ? null : sum(all, 'credits'),
})

const withdrawApproved = async ({ args, output }: Invocation, database: Database): Promise<number> => {
  const dissolved = await withdraw(database.kysely, args, personWith('approve --withdraw'))
  const bought = await stillBought(database.kysely, args)
  for (const one of bought) output.event({ event: 'still_bought', ...one })
  output.summary('approve', { withdrawn: dissolved })
  if (dissolved > 0)
    output.line(`${counted(dissolved, 'purchase')} withdrawn. The next run holds what is beyond the usual again.`)
  else if (bought.length === 0) output.line('No approved purchase is left to withdraw.')
  for (const { pipeline, run_id, units } of bought)
    output.line(
      run_id === null
        ? `A worker is still buying ${counted(units, 'unit')} of ${pipeline}.`
        : `Run ${run_id} is still buying ${counted(units, 'unit')} of ${pipeline}. To stop that, too: \`millrace cancel ${run_id}\`, then this command again.`,
    )
  return 0
}

/** Prints purchases that need approval, and approved ones that are not bought yet. */
export const printApprovals = (
  output: Output,
  { needs_approval, approved }: Pick<Status, 'needs_approval' | 'approved'>,
): void => {
  if (needs_approval.length > 0) {
    output.line()
    printWaiting(output, needs_approval)
    output.line('Next: `millrace plan` shows it, `millrace approve` allows it.')
  }
  output.optionalTable(approved, {
    'approved, not bought yet': ({ pipeline }) => pipeline,
    ...fields('units', 'reports'),
    credits: ({ credits }) => credits ?? 'not known',
    by: ({ approved_by }) => approved_by,
    'done about': ({ done_on }) => done_on ?? 'next run',
  })
}
