// Progress on standard error: a bar on a terminal, plain lines elsewhere, nothing of it on standard output.
import cliProgress from 'cli-progress'
import stringWidth from 'string-width'
import { counted, formatNumber } from '../core/counted.ts'
import { unansweredCodes } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import { timeIn } from '../core/window.ts'
import { setWaitListener } from '../core/waiting.ts'
import { type Counters, createProgress, type Progress, type RunEvent } from '../run/progress.ts'
import { setBarVisible, clearBar, columnsOf, formatSeconds, type Output, paint, stateTone, wrapText } from './output.ts'

/** Interval of plain lines while only the counters change. */
const plainEveryMs = 10_000
/** Interval of plain lines while no unit ends. */
const stillEveryMs = 60_000

/** Shows a run's progress, as a bar on a terminal and as lines elsewhere. */
export interface ProgressView extends Progress {
  /** Hides the bar while `ask` asks a person. */
  aside<T>(ask: () => Promise<T>): Promise<T>
  stop(): void
}

/** Progress that draws itself; every event also goes to `--json` output. */
export const showProgress = (output: Output, hasBar: boolean): ProgressView => {
  const progress = createProgress((event) => {
    output.event(event)
    view.event(event)
  })
  const view = createView(createProgressLine(progress), hasBar && process.stderr.isTTY && !output.json ? newBar() : null)
  const before = setWaitListener((message) => progress.emit({ event: 'notice', code: 'WAITING', message }))
  let stopped = false
  const stop = (): void => {
    if (!stopped) view.stop()
    stopped = true
    setWaitListener(before)
  }
  const aside = async <T>(ask: () => Promise<T>): Promise<T> => {
    view.hide()
    // No `finally`: if `ask` throws, the command ends, and no bar is needed.
    const answer = await ask()
    view.show()
    return answer
  }
  return { ...progress, aside, stop }
}

const noteOf = (event: RunEvent): string | null => {
  if (event.event === 'notice') return event.message
  if (event.event !== 'unit') return null
  const isHeld = event.state === 'held' || event.held_units !== undefined
  const isLeft = event.state === 'waiting' && event.left === true
  if (event.state !== 'failed' && !isHeld && !isLeft) return null
  // Most messages begin with their unit.
  const message = event.message ?? ''
  const about = message.startsWith(event.unit) ? message : `${event.unit}: ${message}`
  const state = isHeld ? 'held' : isLeft ? 'waiting' : 'failed'
  return `${paint(stateTone(state), state, process.stderr)} ${about} [${event.code ?? ''}]`
}

/** Codes that concern many units at once: the account's plan lacks the data, or the service is in trouble. */
const sharedCodes: readonly unknown[] = ['NO_CAPABILITY', ...unansweredCodes]

/** Prints such a message once a pipeline and run, and at the end the number of further units. Ignores counts of tries and seconds in it. */
const createNotes = () => {
  const more = new Map<string, { readonly pipeline: string; readonly state: string; units: number }>()
  let run = 0
  return {
    of: (event: RunEvent): string | null => {
      const note = noteOf(event)
      if (note === null || event.event !== 'unit' || !sharedCodes.includes(event.code)) return note
      if (event.run_id !== run) more.clear()
      run = event.run_id
      const pipeline = event.unit.slice(0, event.unit.indexOf('/'))
      const said = `${pipeline} ${event.state} ${(event.message ?? '').replaceAll(event.unit, '').replace(/ \d+ (?=time|tries|m?s\b)/g, ' ')}`
      const before = more.get(said)
      more.set(said, {
        pipeline,
        state: event.state === 'waiting' ? 'wait' : event.state,
        units: before === undefined ? 0 : before.units + event.units,
      })
      return before === undefined ? note : null
    },
    rest: (): string[] =>
      [...more.values()].flatMap(({ pipeline, state, units }) =>
        units === 0 ? [] : [`${pipeline}: ${counted(units, 'more unit')} ${state} with the same message.`],
      ),
  }
}

const endedLine = ({ pipeline, due_at, time_zone, run_id, state, units }: Extract<RunEvent, { event: 'tick' }>): string => {
  const parts = (['loaded', 'unchanged', 'waiting', 'held', 'failed'] as const).filter((name) => units[name] > 0)
  const nothing = state === 'done' ? 'nothing is due' : 'nothing was asked for'
  const words = units.planned === 0 ? nothing : parts.map((name) => `${units[name]} ${name}`).join(', ')
  const how = state === 'failed' && units.failed === 0 ? 'ended' : state
  return `${pipeline}: tick of ${timeIn(Date.parse(due_at), time_zone)}, run ${run_id} ${how}: ${words}`
}

const barsize = 20
/** Columns of the bar, the percentage and the separator, plus one: the terminal's last column stays free. */
const beside = barsize + ' 100% | '.length + 1

const newBar = () =>
  new cliProgress.SingleBar({
    ...{ format: '{bar} {percentage}% | {text}', barCompleteChar: '█', barIncompleteChar: '░', barsize },
    ...{ hideCursor: true, clearOnComplete: true, stream: process.stderr, gracefulExit: false },
  })

/** @param bar null: plain lines instead */
const createView = (line: ProgressLine, bar: cliProgress.SingleBar | null) => {
  const notes = createNotes()
  let timer: NodeJS.Timeout | undefined
  let printed = ''
  let printedAt = 0
  const draw = (): void => {
    const { done, planned } = line.share()
    bar?.setTotal(Math.max(1, planned))
    bar?.update(done, { text: planned === 0 ? 'planning' : line.text((columnsOf(process.stderr) ?? 80) - beside) })
    const state = `${done}/${planned}`
    // Without a change: a line each minute, but only one once all units are done, so that a scheduler is silent between nights.
    const isStill = state === printed && (done === planned || performance.now() - printedAt < stillEveryMs)
    if (bar !== null || planned === 0 || isStill) return
    printed = state
    printedAt = performance.now()
    write(line.text())
  }
  const write = (text: string): void => {
    if (bar === null) return void process.stderr.write(`${redact(text)}\n`)
    clearBar()
    process.stderr.write(`${redact(wrapText(text, columnsOf(process.stderr)))}\n`)
    draw()
  }
  const show = (): void => {
    bar?.start(1, 0, { text: 'planning' })
    setBarVisible(bar !== null)
    timer = setInterval(draw, bar === null ? plainEveryMs : 100).unref()
  }
  const hide = (): void => {
    clearInterval(timer)
    bar?.stop()
    setBarVisible(false)
  }
  show()
  return {
    hide,
    show,
    event: (event: RunEvent): void => {
      if (event.event === 'planned') line.planned(event.units)
      const note = event.event === 'tick' ? endedLine(event) : notes.of(event)
      if (note !== null) write(note)
      if (event.event !== 'planned') return
      printed = ''
      if (bar === null && event.units > 0) write(`run ${event.run_id}: ${counted(event.units, 'unit')} to do`)
    },
    stop: (): void => {
      for (const note of notes.rest()) write(note)
      draw()
      hide()
    },
  }
}

type ProgressLine = ReturnType<typeof createProgressLine>

/** @param now milliseconds of a monotonic clock */
export const createProgressLine = ({ counters }: Progress, now: () => number = () => performance.now()) => {
  let from: Counters = { ...counters }
  let startedAt = now()
  const since = (name: keyof Counters): number => counters[name] - from[name]
  // `min`, because a job may cover more units than the run requested.
  const share = () => ({ done: Math.min(since('unitsDone'), since('unitsPlanned')), planned: since('unitsPlanned') })
  return {
    /** Call when more units are planned: if all earlier ones are done, counting starts again at 0. */
    planned: (units: number): void => {
      const before = counters.unitsPlanned - units
      if (counters.unitsDone < before) return
      from = { ...counters, unitsPlanned: before, unitsDone: before }
      startedAt = now()
    },
    share,
    /** @param columns width of the line: parts that do not fit are dropped from the end; units and time left come first */
    text: (columns = Number.POSITIVE_INFINITY) => {
      const { done, planned } = share()
      const seconds = (now() - startedAt) / 1000
      const rows = since('rowsRead')
      const rate = seconds > 0 ? Math.round(rows / seconds) : 0
      const parts = [
        `${done}/${planned} units`,
        // From the share of units done; unknown until the first is.
        `time left ${done === 0 || planned === 0 ? '?' : formatSeconds((seconds / done) * (planned - done))}`,
        `${formatNumber(rows)} rows (${formatNumber(rate)}/s)`,
        ...(since('pages') > 0 ? [counted(since('pages'), 'answer')] : []),
      ]
      while (parts.length > 1 && stringWidth(parts.join(', ')) > columns) parts.pop()
      return parts.join(', ')
    },
  }
}
