// The plain values a definition's YAML is made of: names, lines, times, sizes, shares.
import { z } from 'zod'

// Each `error` says what is expected; issues.ts puts what was found in front of it.
export const name = z
  .string({ error: 'a name' })
  .regex(/^[a-z][a-z0-9_]*$/, { error: 'a name of lower-case letters, digits and _ that begins with a letter' })

/** A text that is not empty. @param error what is expected, in a few words */
export const line = (error: string) => z.string({ error }).trim().min(1, { error })
/** A text of that form. @param error as for `line` */
export const pattern = (error: string, form: RegExp) => z.string({ error }).regex(form, { error })
/** A whole number within both bounds. */
export const whole = (error: string, least: number, most: number) => z.int({ error }).min(least, { error }).max(most, { error })
/** YAML's true or false; `yes` is a text. */
export const flag = z.boolean({ error: 'true or false' })

/** Read by src/definition/limits.ts. */
export const duration = pattern('a time such as 500ms, 30s, 5m or 6h', /^\d+(\.\d+)?(ms|s|m|h|d)$/)
/** KB is 1,000 bytes, KiB 1,024. */
export const size = pattern('a size such as 500MB or 2GB', /^\d+(\.\d+)?(B|KB|MB|GB|KiB|MiB|GiB)$/)
/** From 0% to 100%. */
export const percent = pattern('a share such as 50%', /^(100|\d{1,2}(\.\d+)?)%$/)
/** Whether there is such a zone is checked where it is used. */
export const timeZone = line('a time zone such as Europe/Berlin')
/** Of any month; the caller says what a shorter one means. */
export const dayOfMonth = whole('a day of the month, 1 to 31', 1, 31)

/** Credits. */
export const quota = whole('a whole number of credits', 0, Number.MAX_SAFE_INTEGER)
