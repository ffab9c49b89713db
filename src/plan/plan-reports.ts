// Reports of one pipeline: which cells need one, packed into as few as the source allows; a step at a time.
import { sum } from '../core/counted.ts'
import type { Db } from '../db/tables.ts'
import { type NeededCells, neededCells, noRefresh, type Refresh } from '../ledger/candidates.ts'
import { type BoxToMake, insertBoxes, lockJobs, retireJobs, type Ruling } from '../ledger/register-jobs.ts'
import { sliceBlocks, sliceValues } from '../ledger/slices.ts'
import type { CountedWindows } from './count-windows.ts'
import type { PlanWindow } from './frames.ts'
import type { NightGuard } from './guard-night.ts'
import type { UnitsToBuy } from './guard.ts'
import { collectNeeds, fittingLimits, mostUnitsAStep, type NeedGroup, pack, stepsOf, type Task, tasksOf } from './pack.ts'
import { askOf, type PlanContext, spanOf } from './plan-context.ts'

/** A report costs quota, so it is bought again only within the look-back: after the service may have restated it, or where `window.full_check` is less than a month. */
const refreshOf = ({ restatedAt, fullCheck }: PlanContext, { isInLookBack }: PlanWindow): Refresh =>
  isInLookBack ? { ...noRefresh, restatedAt, fullCheck } : noRefresh

export type ReportSteps = Awaited<ReturnType<typeof reportSteps>>

/** What needs a report now, in steps of at most 50,000 units; what needs none is counted. Reads only. `left`: jobs that units of the only step have now. */
export const reportSteps = async (db: Db, context: PlanContext, counted: CountedWindows) => {
  const needs = gatherNeeds()
  for (const window of context.windows) {
    context.signal.throwIfAborted()
    const refresh = refreshOf(context, window)
    if (await counted.skip(db, window, refresh, false)) continue
    const { counts, needed } = await neededCells(db, context.cells, askOf(context, window, refresh), null)
    counted.add(window, counts, false)
    needs.add(window.place, needed)
  }
  const groups = needs.groups()
  const units = unitsOf(groups.map(({ group, run, sliceIds }) => ({ ...group, cells: run.count * sliceIds.length })))
  // A plan that fits into one step is split where it is packed.
  if (sum(groups, ({ run, sliceIds }) => run.count * sliceIds.length) <= mostUnitsAStep)
    return { steps: groups.length === 0 ? [] : [groups], units, left: [...needs.left] }
  const tasks: Task[] = []
  for (const { run, sliceIds } of groups) {
    const limits = fittingLimits(context.limits, listLengths(context), run.count)
    tasks.push(...tasksOf(run, await sliceBlocks(db, sliceIds, limits.values), limits))
  }
  const sign = context.frame.order === 'oldest-first' ? 1 : -1
  const steps = stepsOf(tasks.sort((left, right) => sign * (left.run.first + left.run.count - right.run.first - right.run.count)))
  return { steps, units, left: [] }
}

type Group = Pick<BoxToMake, 'reason' | 'wantedBy' | 'formerJobId' | 'answerId' | 'servedBy'>

const gatherNeeds = () => {
  const needs = collectNeeds<Group>()
  const left = new Set<string>()
  return {
    groups: needs.groups,
    left,
    /** @param place of the window; from the oldest on */
    add: (place: number, needed: readonly NeededCells[]): void => {
      for (const { reason, wantedBy, formerJobId, answerId, servedBy, sliceIds, leftJobIds } of needed) {
        needs.add(place, { reason, wantedBy, formerJobId, answerId, servedBy }, sliceIds)
        for (const id of leftJobIds) left.add(id)
      }
    },
  }
}

const listLengths = ({ definition, pipeline }: PlanContext): number[] =>
  pipeline.dimensions.map((name) => definition.dimensions.find((one) => one.name === name)?.values.length ?? 1)

/** What of the step's cells needs a report at this moment, packed. */
export const packStep = async (db: Db, context: PlanContext, tasks: readonly Task[]): Promise<BoxToMake[]> =>
  packed(db, context, (await stepNeeds(db, context, tasks)).groups)

const stepNeeds = async (db: Db, context: PlanContext, tasks: readonly Task[]) => {
  const needs = gatherNeeds()
  for (const { window, sliceIds } of windowsOf(context, tasks)) {
    const { needed } = await neededCells(db, context.cells, askOf(context, window, refreshOf(context, window)), sliceIds)
    needs.add(window.place, needed)
  }
  return { groups: needs.groups(), leftJobIds: [...needs.left] }
}

const packed = async (db: Db, context: PlanContext, groups: readonly NeedGroup<Group>[]): Promise<BoxToMake[]> => {
  const values = await sliceValues(db, [...new Set(groups.flatMap(({ sliceIds }) => sliceIds))])
  const boxes = groups.flatMap(({ group, run, sliceIds: ids }) => {
    const slices = ids.map((sliceId) => ({ sliceId, values: values.get(sliceId) ?? [] }))
    return pack(run, slices, context.limits).map(({ sliceIds, first, count }): BoxToMake => {
      return { ...group, sliceIds, ...spanOf(context, first, count), cells: sliceIds.length * count }
    })
  })
  return inOrder(boxes, context)
}

const inOrder = (boxes: readonly BoxToMake[], { frame }: PlanContext): BoxToMake[] => {
  const compare = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0)
  return boxes.toSorted((left, right) =>
    frame.order === 'oldest-first' ? compare(left.from, right.from) : compare(right.to, left.to),
  )
}

/** Each window of the step with the slices it needs there. */
const windowsOf = ({ windows }: PlanContext, tasks: readonly Task[]): { window: PlanWindow; sliceIds: number[] }[] =>
  windows.flatMap((window) => {
    const here = tasks.filter(({ run }) => run.first <= window.place && window.place < run.first + run.count)
    return here.length === 0 ? [] : [{ window, sliceIds: here.flatMap(({ sliceIds }) => [...sliceIds]) }]
  })

const unitsOf = (boxes: readonly (Group & Pick<BoxToMake, 'cells'>)[]): UnitsToBuy[] =>
  boxes.flatMap(({ reason, wantedBy, answerId, servedBy, cells }) =>
    answerId === null && servedBy === null ? [{ reason, wantedBy, units: cells }] : [],
  )

/** Applies the guard's ruling. A box whose answer is here, or is asked for by another job, costs nothing. */
const ruled = (box: BoxToMake, { held, approvalId, allowed, credits }: Ruling): BoxToMake => {
  const price = credits === null ? null : Number((credits * box.cells).toFixed(2))
  if (box.answerId !== null || box.servedBy !== null) return { ...box, credits: 0 }
  if (allowed.includes(box.wantedBy)) return { ...box, wantedBy: 'approval', credits: price }
  return held.includes(box.wantedBy) ? { ...box, approvalId, credits: price } : { ...box, credits: price }
}

/** Makes the step's jobs. What was read before may be old by now: it is read again under the locks of the pipeline and of `left`, jobs that others may settle. */
export const askForReports = (context: PlanContext, tasks: readonly Task[], guard: NightGuard, left: string[]): Promise<number> =>
  context.locked(async (trx) => {
    const { groups, leftJobIds } = await needsUnderLock(trx, context, tasks, left)
    const boxes = await packed(trx, context, groups)
    const ruling = await guard.rule(trx, unitsOf(boxes))
    const allowed = boxes.map((box) => ruled(box, ruling))
    const count = await insertBoxes(trx, context.frame, allowed)
    await retireJobs(trx, leftJobIds)
    return count
  })

/** Repeats until every job that the units leave was locked before they were read. */
const needsUnderLock = async (
  trx: Db,
  context: PlanContext,
  tasks: readonly Task[],
  locked: string[],
): ReturnType<typeof stepNeeds> => {
  await lockJobs(trx, locked)
  const needs = await stepNeeds(trx, context, tasks)
  const more = needs.leftJobIds.filter((id) => !locked.includes(id))
  return more.length === 0 ? needs : needsUnderLock(trx, context, tasks, [...locked, ...more])
}
