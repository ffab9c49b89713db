// Whether a cron expression means something, as the scheduler itself reads it: five fields, in range, on a day that exists.
import { validateDetailed } from 'node-cron'

const fields: Readonly<Record<string, { readonly name: string; readonly range: string }>> = {
  minute: { name: 'minute', range: '0 to 59' },
  hour: { name: 'hour', range: '0 to 23' },
  dayOfMonth: { name: 'day of the month', range: '1 to 31' },
  month: { name: 'month', range: '1 to 12, or jan to dec' },
  dayOfWeek: { name: 'weekday', range: '0 to 7, or sun to sat' },
}

/** What is wrong with `text` as a cron expression, or null. */
export const cronProblem = (text: string): string | null => {
  const parts = text.trim().split(/\s+/)
  if (parts.length !== 5) {
    return `'${text}' has ${parts.length} field(s), expected 5: minute hour day month weekday, for example "30 2 * * *".`
  }
  const { valid, errors } = validateDetailed(text)
  if (valid) return null
  const [error] = errors
  if (error === undefined) return `'${text}' is not a schedule; write for example "30 2 * * *".`
  if (/impossible/.test(error.message))
    return `day ${error.value} never comes in the month(s) '${parts[3]}'; choose a day that exists.`
  const field = fields[error.field] ?? { name: error.field, range: '*, lists, ranges, steps' }
  return `'${error.value}' is not a ${field.name} (${field.range}; also *, lists, ranges, steps).`
}
