// Numbers, months and slices on the command line.
import { EtlError } from '../core/errors.ts'
import { parseOnly } from '../core/only.ts'
import { inclusiveRange } from '../core/window.ts'
import type { Scope } from '../plan/frames.ts'
import type { Handler, Invocation } from './command-spec.ts'

/** Hands a command over to what its first argument names: one of the words of its usage, to which commander holds it. */
export const byAction =
  (actions: Readonly<Record<string, (invocation: Invocation, rest: readonly string[]) => Promise<number>>>): Handler =>
  async (invocation) => {
    const [action = '', ...rest] = invocation.args
    return actions[action]?.(invocation, rest) ?? 2
  }

/** A whole number from 1; anything else is USAGE in `words`. */
export const wholeNumber = (value: unknown, words: (text: string) => string): number => {
  const text = String(value)
  const number = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(number) || number < 1) throw new EtlError('USAGE', words(text))
  return number
}

/** Both ends of --from and --to; either missing is a USAGE error. */
export const rangeOf = ({ options }: Invocation): { from: string; to: string } => {
  const { from, to } = options
  if (typeof from !== 'string' || typeof to !== 'string') {
    throw new EtlError(
      'USAGE',
      'Both --from YYYY-MM and --to YYYY-MM are needed (inclusive), for example --from 2026-01 --to 2026-03.',
    )
  }
  return { from, to }
}

/** A range of months as --from and --to name it; either missing is a USAGE error. */
export const rangeScope = (invocation: Invocation, more: Partial<Scope> = {}): Scope => {
  const { from, to } = rangeOf(invocation)
  const { options } = invocation
  return {
    mode: 'range',
    rangeOf: ({ window }) => inclusiveRange(from, to, window.every),
    force: options['force'] === true,
    only: parseOnly(options['only']),
    ...more,
  }
}
