// Dates and times: checked against the calendar, kept as ISO text.
import { refuse } from './cast-text.ts'

const daysIn = (year: number, month: number): number =>
  month === 2 ? (year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31

/** Whether ISO text `YYYY-MM-DD` is a day of the calendar. */
const isDay = (text: string): boolean => {
  const year = Number(text.slice(0, 4))
  const month = Number(text.slice(5, 7))
  const day = Number(text.slice(8, 10))
  return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month)
}

const clock = String.raw`[T ]([01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?`
const zone = String.raw`(?:Z|[+-](?:0\d|1[0-5])(?::?[0-5]\d)?)`
const dateForm = new RegExp(`^(\\d{4}-\\d{2}-\\d{2})(?:${clock}${zone}?)?$`)
const timeForm = new RegExp(`^(\\d{4}-\\d{2}-\\d{2})${clock}${zone}$`)

/** `YYYY-MM-DD`, also where a time of day stands behind it. */
export const castDate = (cell: string): string => {
  const day = dateForm.exec(cell.trim())?.[1]
  return day !== undefined && isDay(day) ? day : refuse(cell, 'a date (YYYY-MM-DD)')
}

/** First day of the period a row is for: `YYYY-MM`, a date, or a time. @param monthly dates become the first of their month */
export const castPeriod =
  (monthly: boolean) =>
  (cell: string): string => {
    const text = cell.trim()
    const day = /^\d{4}-\d{2}$/.test(text) ? `${text}-01` : dateForm.exec(text)?.[1]
    if (day === undefined || !isDay(day)) return refuse(cell, 'a period (YYYY-MM or YYYY-MM-DD)')
    return monthly ? `${day.slice(0, 8)}01` : day
  }

/** A moment. Without its zone it could be any of 24. */
export const castTimestamp = (cell: string): string => {
  const text = cell.trim()
  const day = timeForm.exec(text)?.[1]
  return day !== undefined && isDay(day) ? text : refuse(cell, 'a time with its zone (2026-01-31T12:00:00Z)')
}
