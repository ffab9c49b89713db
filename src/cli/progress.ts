// Progress on standard error: a bar on a terminal, plain lines elsewhere, nothing of it on standard output.
import cliProgress from 'cli-progress'
import { redact } from '../core/redact.ts'
import { createProgress, type Progress, type RunEvent } from '../run/progress.ts'
import { formatNumber, formatSeconds, type Output } from './output.ts'

/** Between plain lines where nothing but the counters changed. */
const plainEveryMs = 10_000

export interface ProgressView extends Progress {
  /** Takes the bar away and stops the plain lines. */
  stop(): void
}

/** Progress that draws itself; every event also goes to `--json` output. */
export const showProgress = (output: Output): ProgressView => {
  const view = process.stderr.isTTY && !output.json ? barView() : plainView()
  const progress = createProgress((event) => {
    output.event(event)
    view.event(event)
  })
  view.begin(progress)
  let stopped = false
  const stop = (): void => {
    if (!stopped) view.stop()
    stopped = true
  }
  return { ...progress, stop }
}

interface View {
  begin(progress: Progress): void
  event(event: RunEvent): void
  stop(): void
}

const noteOf = (event: RunEvent): string | null => {
  if (event.event === 'notice') return event.message
  if (event.event !== 'unit') return null
  if (event.state !== 'failed' && event.state !== 'held') return null
  // Most messages name their unit themselves.
  const message = event.message ?? ''
  const about = message.startsWith(`${event.unit}:`) ? message : `${event.unit}: ${message}`
  return `${event.state} ${about} [${event.code ?? ''}]`
}

const summaryLine = (progress: Progress, startedAt: number): string => {
  const { unitsPlanned, unitsDone, rowsRead, pages, reportsOpen } = progress.counters
  const seconds = (Date.now() - startedAt) / 1000
  const rate = seconds > 0 ? Math.round(rowsRead / seconds) : 0
  const parts = [`${unitsDone}/${unitsPlanned} units`, `${formatNumber(rowsRead)} rows (${formatNumber(rate)}/s)`]
  if (pages > 0) parts.push(`${formatNumber(pages)} pages`)
  if (reportsOpen > 0) parts.push(`${reportsOpen} reports open`)
  parts.push(`time left ${timeLeft(progress, seconds)}`)
  return parts.join(', ')
}

/** From the share of units done; unknown until the first is. */
const timeLeft = (progress: Progress, seconds: number): string => {
  const { unitsPlanned, unitsDone } = progress.counters
  if (unitsDone === 0 || unitsPlanned === 0) return '?'
  return formatSeconds((seconds / unitsDone) * (unitsPlanned - unitsDone))
}

const plainView = (): View => {
  let progress: Progress | null = null
  let timer: NodeJS.Timeout | null = null
  const startedAt = Date.now()
  const write = (text: string): void => void process.stderr.write(`${redact(text)}\n`)
  const print = (): void => {
    if (progress !== null && progress.counters.unitsPlanned > 0) write(summaryLine(progress, startedAt))
  }
  return {
    begin: (started) => {
      progress = started
      timer = setInterval(print, plainEveryMs)
      timer.unref()
    },
    event: (event) => {
      const note = noteOf(event)
      if (note !== null) write(note)
      if (event.event === 'planned') write(`run ${event.run_id}: ${event.units} units to do`)
    },
    stop: () => {
      if (timer !== null) clearInterval(timer)
      print()
    },
  }
}

const barView = (): View => {
  const startedAt = Date.now()
  let timer: NodeJS.Timeout | null = null
  let progress: Progress | null = null
  const bar = new cliProgress.SingleBar({
    format: '{bar} {percentage}% | {text}',
    barCompleteChar: '█',
    barIncompleteChar: '░',
    barsize: 24,
    hideCursor: true,
    clearOnComplete: true,
    stream: process.stderr,
    gracefulExit: false,
  })
  const draw = (): void => {
    if (progress === null) return
    const { unitsPlanned, unitsDone } = progress.counters
    bar.setTotal(Math.max(1, unitsPlanned))
    bar.update(unitsDone, { text: summaryLine(progress, startedAt) })
  }
  return {
    begin: (started) => {
      progress = started
      bar.start(1, 0, { text: 'planning' })
      timer = setInterval(draw, 100)
      timer.unref()
    },
    event: (event) => {
      const note = noteOf(event)
      if (note === null) return
      // The bar's own line is overwritten, the note stays above it.
      process.stderr.write(`\r\u001b[2K${redact(note)}\n`)
      draw()
    },
    stop: () => {
      if (timer !== null) clearInterval(timer)
      draw()
      bar.stop()
    },
  }
}
