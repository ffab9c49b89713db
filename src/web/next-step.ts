// What a person can do about a unit that is not loaded: a command, and the same as a button.
import { html } from 'hono/html'
import { command, type Html } from './layout.ts'

/** As much of a unit as decides what can be done. */
export interface Troubled {
  readonly unit_id: number
  readonly pipeline: string
  readonly state: string
  readonly error_code: string | null
}

/** Text, command or button; the button asks before anything is done. */
export const nextStepOf = (unit: Troubled): Html => {
  if (unit.state === 'held') {
    if (unit.error_code === 'NEEDS_APPROVAL') return command(`millrace approve ${unit.pipeline}`)
    const uncertain = unit.error_code === 'REPORT_UNCERTAIN'
    return html`${command(uncertain ? `millrace run ${unit.pipeline} --resubmit-uncertain` : `millrace release ${unit.unit_id}`)}
${uncertain ? '' : html`<a class="button" href="/units/${unit.unit_id}/release">Release…</a>`}`
  }
  if (unit.state === 'failed')
    return html`${command(`millrace run ${unit.pipeline}`)} <a class="button" href="/units/${unit.unit_id}/retry">Retry…</a>`
  if (unit.state === 'loaded') return html`nothing to do`
  return html`it resumes by itself`
}
