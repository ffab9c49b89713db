// What waits for a person's word, and what has it and is not bought yet.
import { html } from 'hono/html'
import type { Standing, WaitingWord } from '../reads/read-approvals.ts'
import { count } from '../format.ts'
import { command, type Html, table } from '../layout.ts'

/** What costs more than usual and waits for a word; and what has it and is not bought yet. */
export const approvalTables = (waiting: readonly WaitingWord[], approved: readonly Standing[]): Html => html`
${
  waiting.length === 0
    ? ''
    : table(
        'Needs approval',
        ['Pipeline', 'Why', 'Units', 'Reports', 'Credits', 'A night may cost', 'To allow it'],
        waiting.map(({ pipeline, reasons, units, reports, credits, priced, allowed }) => [
          pipeline,
          Object.keys(reasons).join(', '),
          count(units),
          count(reports),
          priced ? `about ${count(credits)}` : 'not known',
          allowed === null ? '-' : count(allowed),
          command(`npx millrace approve ${pipeline}`),
        ]),
        '',
      )
}
${
  approved.length === 0
    ? ''
    : table(
        'Approved, not bought yet',
        ['Pipeline', 'Units', 'Reports', 'Credits', 'By', 'Done about'],
        approved.map(({ pipeline, units, reports, credits, approved_by, done_on }) => [
          pipeline,
          count(units),
          count(reports),
          `about ${count(credits)}`,
          approved_by ?? '-',
          done_on ?? 'next run',
        ]),
        '',
      )
}`
