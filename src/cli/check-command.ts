// `millrace check`: every finding, and with --all a line for each thing that is right or was not asked; 2 when there is an error, 0 otherwise.
import { createLog } from '../core/log.ts'
import { placeOf } from '../definition/problem.ts'
import { check } from './check/run-checks.ts'
import { pipelinesFolder, settingsOf } from './command-runtime.ts'
import type { Handler } from './command-spec.ts'
import { paint, stateTone } from './terminal.ts'

/** Exit code 2 where anything is wrong. */
export const handle: Handler = async (invocation) => {
  const { output, options } = invocation
  const { findings, lines, checked } = await check({
    settings: () => settingsOf(invocation),
    pipelinesFolder: pipelinesFolder(invocation),
    pipelines: [],
    offline: options['offline'] === true,
    log: createLog(invocation.environment['MILLRACE_LOG_LEVEL']),
    signal: invocation.signal,
  })
  for (const { area, result, message } of lines) {
    output.event({ event: 'check', area, result, message })
    if (options['all'] === true) output.line(`${paint(stateTone(result), result)} (${area}): ${message}`)
  }
  const errors = findings.filter((finding) => finding.level === 'error').length
  // Errors last: that is where a terminal stops.
  for (const finding of findings.toSorted((left, right) => right.level.localeCompare(left.level))) {
    output.event({ event: 'finding', ...finding, ...placeOf(finding.message) })
    output.line(`${paint(stateTone(finding.level), finding.level)} (${finding.area}): ${finding.message}`)
  }
  const warnings = findings.length - errors
  const proved = lines.filter(({ result }) => result === 'proved').length
  const notAsked = lines.length - proved
  output.event({ event: 'summary', command: 'check', errors, warnings, proved, not_asked: notAsked, checked })
  const right = `${proved} proved, ${notAsked} not asked`
  const where = options['all'] === true ? '' : ': `millrace check --all` lists them'
  output.line(`${counted(errors, 'error')}, ${counted(warnings, 'warning')}; ${right}${where}.`)
  return errors > 0 ? 2 : 0
}

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
