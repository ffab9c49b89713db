// Delivery of batch reports, the same for both kinds: the format, the way, and the span that can be requested (interface 4.2, 4.3).
import { z } from 'zod'
import type { ParamsAndWindow, PeriodSpec, SpecProblem } from '../../core/source-spec.ts'
import type { Definition, Window } from '../../core/types.ts'
import { addWindows, alignDown } from '../../core/window.ts'

const onlyLink =
  'download_link: a report delivered elsewhere (a bucket, a warehouse, an integration) never comes here, so it could be neither kept nor proved complete'

/** Parameters of a definition. */
export const delivery = {
  response_format: z.enum(['csv', 'json']).default('csv'),
  delivery_method: z
    .string()
    .regex(/^download_link$/, { error: onlyLink })
    .default('download_link'),
}

/** Their names. */
export const deliveryParams: readonly string[] = Object.keys(delivery)

/** The span of one row (interface 4.3). */
export const period: PeriodSpec = { param: 'granularity', every: { daily: 'day', weekly: 'week', monthly: 'month' } }

/** Requests name whole months: those that the window touches. A week that begins before the first of them comes with it. */
export const spanOfReport = ({ params }: Definition, { from, to }: Window): Window => {
  const month = alignDown(from, 'month')
  return {
    from: params['granularity'] === 'weekly' ? alignDown(month, 'week') : month,
    to: addWindows(alignDown(addWindows(to, 'day', -1), 'month'), 'month', 1),
  }
}

/** A month's rows cannot be shared out among weeks, and a week may begin in the month before. */
export const periodProblems = ({ params, window }: ParamsAndWindow): readonly SpecProblem[] => {
  const { every } = window
  const path = ['window', 'every']
  if (params['granularity'] === 'weekly' && every !== 'week')
    return [
      { path, message: `a weekly report comes by weeks, which may begin in the month before; write every: week, not ${every}.` },
    ]
  if (params['granularity'] === 'monthly' && every !== 'month')
    return [{ path, message: `a monthly report has no rows of a ${every}; write every: month, or granularity: weekly.` }]
  return []
}

/** `params.top`: only the first so many rows of each domain are asked for, and paid. */
export const topRows = z.int().min(1).max(1_000_000)

/** Of a definition's parameters. */
export const topOf = ({ top }: Readonly<Record<string, unknown>>): { top?: number } => (typeof top === 'number' ? { top } : {})
