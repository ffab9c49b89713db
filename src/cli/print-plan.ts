// The plan on one screen: what would be requested and why, what it costs, what needs approval; or in full, as events.
import { aboutCredits, counted, formatNumber, sum, sums } from '../core/counted.ts'
import { rounded } from '../core/learned-price.ts'
import type { Preview, PreviewJob, PreviewPipeline } from '../plan/dry-run.ts'
import type { Offer } from '../plan/older-months.ts'
import { clipText, formatSeconds, type Output, showWindows } from './output.ts'
import { isVersion, type PlannedReason, reasonsOf } from '../web/plan-cache.ts'

/** @param command the one that is planned: `run`, `backfill`, `plan` */
export const printPlan = (output: Output, command: string, preview: Preview): void => {
  planEvents(output, command, preview)
  for (const line of planLines(preview)) output.line(line)
}

const width = 80
/** Most rows of reasons that fit on a screen beside the other lines. */
const mostRows = 12

const planLines = (preview: Preview): string[] => [
  ...tableLines(preview),
  ...changeLines(preview.pipelines),
  ...olderLines(preview.pipelines),
  ...idleLines(preview.pipelines),
  ...closingLines(preview),
]

const tableLines = ({ jobs, pipelines }: Preview): string[] => {
  const rows = reasonsOf(jobs)
  if (rows.length === 0) return ['Nothing to load.']
  const isLong = rows.length + pipelines.length > mostRows
  const lines = pipelines.flatMap((one) => {
    const mine = rows.filter(isVersion(one))
    if (mine.length === 0) return []
    return isLong ? [tableRow(one.name, wholeOf(mine))] : [one.name, ...mine.map((row) => tableRow(`  ${reasonWords(row)}`, row))]
  })
  return [head, ...atMost(mostRows, lines, (left) => `and ${left} more; --json has all.`)]
}

/** The first lines; the last one says how many are left out. */
const atMost = (most: number, lines: readonly string[], more: (left: number) => string): readonly string[] =>
  lines.length > most ? [...lines.slice(0, most - 1), more(lines.length - most + 1)] : lines

type Figures = Pick<PlannedReason, 'units' | 'reports' | 'requests' | 'credits' | 'held'>

const wholeOf = (rows: readonly PlannedReason[]): Figures => ({
  ...sums(rows, 'units', 'reports', 'requests'),
  credits: rows.every(({ credits }) => credits === null) ? null : sum(rows, 'credits'),
  held: rows.some(({ held }) => held),
})

const reasonWords = ({ reason, from, to }: PlannedReason): string => `${reason} (${from === to ? from : `${from}..${to}`})`

const cells = (first: string, rest: readonly string[]): string =>
  `${first.padEnd(39).slice(0, 39)}${rest.map((cell) => cell.padStart(10)).join('')}`

const head = cells('', ['units', 'reports', 'requests', 'credits'])

/** A star marks what needs approval. */
const tableRow = (first: string, { units, reports, requests, credits, held }: Figures): string =>
  cells(first, [formatNumber(units), count(reports), count(requests), credits === null ? '-' : formatNumber(credits)]) +
  (held ? '*' : '')

const count = (value: number): string => (value === 0 ? '-' : formatNumber(value))

/** At most three lines: new values, removed values, other changes of requests. */
const changeLines = (pipelines: readonly PreviewPipeline[]): readonly string[] => {
  const all = pipelines.flatMap(({ name: pipeline, changes }) => [
    ...changes.lists.map(({ dimension, came, left, cameValues, leftValues }) =>
      clipped(
        `Changed: ${pipeline} ${[
          ...(came > 0 ? [`${dimension} +${formatNumber(came)} (${named(cameValues, came)})`] : []),
          ...(left > 0 ? [`${dimension} -${formatNumber(left)} (${named(leftValues, left)})`] : []),
        ].join(', ')}`,
      ),
    ),
    ...changes.definition.map(({ what, from, to }) => clipped(`Changed: ${pipeline} ${what}: ${from} -> ${to}`)),
  ])
  return atMost(3, all, (left) => `and ${left} more changes; --json has all.`)
}

/** Months that still follow an older method. A command is never cut, however long it is. */
const olderLines = (pipelines: readonly PreviewPipeline[]): string[] =>
  pipelines.flatMap(({ name: pipeline, older }) =>
    older.flatMap(({ startsOn, column, change, from, to, sample, all }) => [
      clipped(
        `${pipeline}: another method from ${startsOn} on (${column === '' ? 'a version it names' : `${column} ${percentWords(change)}`}); ${from}..${to} not.`,
      ),
      `  How far back it goes, ${offerWords(sample)}`,
      `  All of it again, ${offerWords(all)}`,
    ]),
  )

const percentWords = (change: number): string => `${change < 0 ? '-' : '+'}${Math.abs(change * 100).toFixed(0)} %`

const offerWords = ({ command, units, credits }: Offer): string =>
  `${counted(units, 'unit')}, ${credits === null ? 'price not known' : `about ${counted(credits, 'credit')}`}: ${command}`

const named = (values: readonly string[], total: number): string => `${values.slice(0, 3).join(', ')}${total > 3 ? ', …' : ''}`

const clipped = (text: string): string => clipText(text, width)

const idleLines = (pipelines: readonly PreviewPipeline[]): string[] => {
  const part = (pick: (one: PreviewPipeline) => number, words: string): string[] => {
    const units = sum(pipelines, pick)
    return units === 0 ? [] : [`${formatNumber(units)} ${words}`]
  }
  const waiting = sum(pipelines, ({ waiting: { units } }) => units)
  const parts = [
    ...part(({ done }) => done, 'loaded already'),
    ...part(({ held }) => Math.max(0, held), waiting > 0 ? 'held or waiting for approval' : 'held'),
    ...part(({ failed }) => failed, 'whose report failed (`millrace status`)'),
    ...part(({ notPublished }) => notPublished, 'not published yet'),
  ]
  const windows = [...new Set(pipelines.flatMap(({ unpublishedWindows }) => unpublishedWindows))].sort()
  const later =
    windows.length === 0
      ? []
      : [`Not published yet by the service: ${showWindows(windows)}; run it again once they are published.`]
  return [...(parts.length === 0 ? [] : [`Besides: ${parts.join(', ')}.`]), ...later]
}

/** The figures for a person's decision: the total, what needs approval, the month. Also shown before a question. */
export const closingLines = (preview: Preview): string[] => {
  const { jobs, pipelines } = preview
  const now = jobs.filter(({ held }) => !held)
  return [
    `Now${isBeyondBudgets(now, pipelines) ? ', as far as the budgets allow' : ''}: ${totalWords(now)}, about ${formatSeconds(sum(pipelines, 'seconds'))}.`,
    ...lookLines(pipelines),
    ...heldLines(jobs, pipelines),
    ...paceLines(pipelines),
    ...monthLines(preview),
    ...pageLines(preview),
    priceLine(preview),
  ]
}

/** Whether a budget leaves a part of the purchases waiting. */
const isBeyondBudgets = (jobs: readonly PreviewJob[], pipelines: readonly PreviewPipeline[]): boolean => {
  const byPipeline = Map.groupBy(jobs, ({ pipeline }) => pipeline)
  const quotaOf = ({ pipeline }: PreviewPipeline): number => sum(byPipeline.get(pipeline) ?? [], 'quota')
  const newest = newestOf(pipelines)
  return pipelines.some((one) => {
    const mine = quotaOf(one)
    const ofAccount = sum(
      newest.filter(({ account }) => account === one.account),
      quotaOf,
    )
    return (
      one.doneOn !== null ||
      within(one.budget, one.spent, mine) < mine ||
      within(one.accountBudget, one.accountSpent, ofAccount) < ofAccount
    )
  })
}

const totalWords = (jobs: readonly PreviewJob[]): string => {
  const { units, reports, requests, rows } = sums(jobs, 'units', 'reports', 'requests', 'rows')
  return [
    counted(units, 'unit'),
    counted(reports, 'report'),
    counted(requests, 'request'),
    ...(jobs.some((job) => job.rows !== null) ? [`~${counted(rows, 'row')}`] : []),
    creditWords(jobs),
  ].join(', ')
}

/** An unknown price is not 0. */
const creditWords = (jobs: readonly PreviewJob[]): string => {
  const credits = counted(sum(jobs, 'quota'), 'credit')
  if (jobs.every(({ quota }) => quota !== null)) return credits
  return jobs.some(({ quota }) => (quota ?? 0) > 0) ? `${credits} plus purchases of unknown price` : 'price not known'
}

/** Most lines of pipelines with purchases that need approval. */
const mostHeld = 4

const heldLines = (jobs: readonly PreviewJob[], pipelines: readonly PreviewPipeline[]): string[] => {
  const lines = pipelines.flatMap((one) => {
    const { pipeline, name, verdict, waiting } = one
    const held = jobs.filter((job) => job.held && isVersion(one)(job))
    const units = sum(held, 'units') + waiting.units
    if (units === 0) return []
    const isKnown = waiting.priced && held.every(({ quota }) => quota !== null)
    const credits = isKnown ? `about ${counted(sum(held, 'quota') + waiting.credits, 'credit')}` : 'price not known'
    const allowed =
      verdict === null || !Number.isFinite(verdict.allowed) ? '' : `; nightly limit ${formatNumber(Math.round(verdict.allowed))}`
    const text = `* ${name}: ${counted(units, 'unit')}, ${credits}`
    // Leave the limit out rather than cut a number.
    return [{ pipeline, text: clipped(`${text}${text.length + allowed.length < width ? allowed : ''}.`) }]
  })
  if (lines.length === 0) return []
  const texts = lines.map(({ text }) => text)
  const shown = atMost(mostHeld, texts, (left) => `* and ${left} more pipelines; --json has all.`)
  const names = [...new Set(lines.map(({ pipeline }) => pipeline))].join(' ')
  // `approve` works only after a run has held the purchases.
  const isHere = pipelines.some(({ waiting }) => waiting.units > 0)
  const command = `* Needs approval${isHere ? '' : '; after the next run'}: millrace approve${names.length > 40 ? '' : ` ${names}`}`
  return [...shown, command]
}

/** Two at most. */
const lookLines = (pipelines: readonly PreviewPipeline[]): string[] => {
  const words = ({ units, credits }: Pick<Offer, 'units' | 'credits'>): string =>
    `if the look-back finds changes, up to ${counted(units, 'unit')} more, ${aboutCredits(credits)}.`
  return pipelines.flatMap(({ name, ifChanged }) => (ifChanged === null ? [] : [`${name}: ${words(ifChanged)}`])).slice(0, 2)
}

const paceLines = (pipelines: readonly PreviewPipeline[]): string[] =>
  pipelines.flatMap(({ name: pipeline, doneOn, backlog }) => {
    if (doneOn !== null) return [clipped(`${pipeline}: over a budget; continues each night, done ${doneOn}.`)]
    return backlog.units === 0
      ? []
      : [
          clipped(
            `${pipeline}: ${counted(backlog.units, 'approved unit')} ${backlog.units === 1 ? 'goes' : 'go'} with the next run.`,
          ),
        ]
  })

/** The newest version of each pipeline: spending and forecast are for all its versions together. */
const newestOf = (pipelines: readonly PreviewPipeline[]): PreviewPipeline[] =>
  pipelines.filter(
    (one) =>
      !pipelines.some(
        ({ pipeline, account, version }) => pipeline === one.pipeline && account === one.account && version > one.version,
      ),
  )

const monthLines = ({ jobs, pipelines }: Preview): string[] => {
  const buying = newestOf(pipelines).filter(
    ({ verdict, spent, forecast }) => verdict !== null || spent > 0 || (forecast ?? 0) > 0,
  )
  const byAccount = [...Map.groupBy(buying, ({ account }) => account)]
  return byAccount.slice(0, 2).flatMap(([account, group]) => {
    const spent = group[0]?.accountSpent ?? 0
    const mine = jobs.filter((job) => !job.held && group.some(({ pipeline }) => pipeline === job.pipeline))
    const unknown = mine.some(({ quota }) => quota === null) ? ' and what has no price yet' : ''
    const budget = group[0]?.accountBudget ?? (group.length === 1 ? (group[0]?.budget ?? null) : null)
    const planned = sum(group, (one) => spending(one, mine))
    const after = Math.round(spent + within(budget, spent, planned))
    const of = budget === null ? '' : ` of ${formatNumber(budget)}`
    const left = budget === null ? '' : `, ${formatNumber(Math.max(0, budget - after))} left`
    const known = group.filter(({ forecast }) => forecast !== null)
    // The account's forecast includes what other pipelines have spent.
    const others = Math.max(0, spent - sum(group, 'spent'))
    const forecast = formatNumber(Math.round(sum(group, (one) => one.forecast ?? one.spent) + others))
    return [
      clipped(
        `Month (${account}): ${formatNumber(Math.round(spent))}${of} credits spent, ${formatNumber(after)}${unknown} after this${left}.`,
      ),
      ...(group.length > 1 ? budgetLines(group, mine) : []),
      ...(known.length === 0
        ? []
        : [`Forecast for ${group[0]?.month.last ?? ''}, with this plan: about ${forecast} credits${unknown}.`]),
    ]
  })
}

/** Budgets of single pipelines, three at most. */
const budgetLines = (group: readonly PreviewPipeline[], jobs: readonly PreviewJob[]): string[] =>
  group
    .flatMap(({ pipeline, budget, spent }) => {
      if (budget === null) return []
      const after = Math.round(spent + sum(jobs.filter((job) => job.pipeline === pipeline), 'quota')) // biome-ignore format: one look
      return [clipped(`  ${pipeline}: ${formatNumber(Math.max(0, budget - after))} of ${formatNumber(budget)} left after this.`)]
    })
    .slice(0, 3)

/** What a budget lets a plan spend: the rest waits for the next month. */
const within = (budget: number | null, spent: number, credits: number): number =>
  budget === null ? credits : Math.min(credits, Math.max(0, budget - spent))

const spending = ({ pipeline, budget, spent }: PreviewPipeline, jobs: readonly PreviewJob[]): number => {
  const mine = jobs.filter((job) => job.pipeline === pipeline)
  return within(budget, spent, sum(mine, 'quota'))
}

/** What pages cost or may cost, at most two lines. */
const pageLines = ({ jobs, pipelines }: Preview): string[] =>
  pipelines
    .flatMap((one) => {
      const { name: pipeline, price } = one
      const mine = jobs.filter((job) => isVersion(one)(job) && !job.held)
      if (mine.every(({ range }) => range === null)) return []
      const ends = [sum(mine, ({ range, quota }) => range?.low ?? quota), sum(mine, ({ range, quota }) => range?.high ?? quota)]
      const [low, high] = ends.map((one) => formatNumber(Math.round(one)))
      return [
        `${pipeline}: now ${low} to ${high} credits${price === null ? '; the first bill settles it' : ', by the bills so far'}.`,
      ]
    })
    .slice(0, 2)

const priceLine = ({ jobs, asked, priced, times }: Preview): string => {
  const bought = jobs.filter(({ reports }) => reports > 0)
  if (bought.length === 0) return 'Nothing was spent by planning.'
  // Reports priced by the service have a `quota`, too: if all have one, the others are estimated.
  const isEstimated = bought.every(({ quota }) => quota !== null)
  if (priced > 0)
    return `Prices by the service${times > 1 ? `, times ${formatNumber(Number(times.toFixed(2)))} as its newest bills were,` : ''} for ${priced} of ${counted(bought.length, 'report')}${priced < bought.length ? `, the others ${isEstimated ? 'estimated' : 'not known'}` : ''}; ${counted(asked, 'free request')}, nothing spent.`
  const isKnown = bought.some(({ quota }) => quota !== null)
  return `Prices ${isKnown ? 'estimated from earlier reports' : 'not known (-): neither the service nor an earlier report tells'}; nothing was spent.`
}

/** The plan as JSON lines, with a summary last that has the fields of a run's summary. */
const planEvents = (output: Output, command: string, preview: Preview): void => {
  if (!output.json) return
  const { jobs, pipelines } = preview
  for (const job of jobs) output.event({ event: 'job', ...job })
  for (const reason of reasonsOf(jobs)) output.event({ event: 'reason', ...reason })
  for (const { pipeline, version, changes } of pipelines) {
    for (const change of changes.lists) output.event({ event: 'list_change', pipeline, version, ...change })
    for (const change of changes.definition) output.event({ event: 'definition_change', pipeline, version, ...change })
  }
  for (const pipeline of pipelines) output.event({ event: 'pipeline', ...pipeline })
  output.event(summaryOf(command, preview))
}

/** Bounds of the credits from what other accounts paid; null: not known, or every price is known. */
const rangeOf = (jobs: readonly PreviewJob[]): { readonly low: number; readonly high: number } | null =>
  jobs.every(({ quota }) => quota !== null) || jobs.some(({ quota, range }) => quota === null && range === null)
    ? null
    : {
        low: sum(jobs, ({ quota, range }) => quota ?? range?.low ?? 0),
        high: sum(jobs, ({ quota, range }) => quota ?? range?.high ?? 0),
      }

const summaryOf = (command: string, { jobs, pipelines, asked, priced }: Preview): Record<string, unknown> => {
  const now = jobs.filter(({ held }) => !held)
  const waits = jobs.filter(({ held }) => held)
  const unpriced = now.filter(({ quota }) => quota === null)
  const [units, rows] = [sum(now, 'units'), sum(now, 'rows')]
  const done = sum(pipelines, 'done')
  const held = sum(pipelines, 'held') + sum(waits, 'units')
  const [waiting, failed] = [sum(pipelines, 'notPublished'), sum(pipelines, 'failed')]
  const known = newestOf(pipelines).filter(({ forecast }) => forecast !== null)
  const doneOn = pipelines.flatMap((one) => one.doneOn ?? [])
  return {
    event: 'summary',
    command,
    dry_run: true,
    run_id: null,
    units: { planned: units + done + held + waiting + failed, loaded: units, unchanged: done, waiting, held, failed },
    rows: { read: rows, inserted: rows, updated: 0, ended: 0, unchanged: 0, quarantined: 0, duplicates: 0 },
    requests: sum(now, 'requests'),
    reports_submitted: sum(now, 'reports'),
    quota_used: Math.ceil(rounded(sum(now, 'quota'))),
    // Units without a known price are not in `quota_used`.
    unpriced_units: sum(unpriced, 'units'),
    quota_range: rangeOf(now),
    bytes: 0,
    seconds: Math.round(sum(pipelines, 'seconds') * 10) / 10,
    free_requests: asked,
    needs_approval: {
      units: sum(waits, 'units') + sum(pipelines, (one) => one.waiting.units),
      reports: sum(waits, 'reports') + sum(pipelines, (one) => one.waiting.reports),
      credits: sum(waits, 'quota') + sum(pipelines, (one) => one.waiting.credits),
    },
    estimated: priced < now.length + waits.length,
    forecast: known.length === 0 ? null : sum(known, 'forecast'),
    done_on: doneOn.sort().at(-1) ?? null,
  }
}
