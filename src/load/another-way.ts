// How a load says that its short cut does not fit the answer, so that the caller rolls back and takes the general one.
import { EtlError } from '../core/errors.ts'
import type { MergeScope } from './merge-scope.ts'

/** @param why what stands in the way of loading the answer at once */
export const anotherWay = ({ name }: Pick<MergeScope, 'name'>, why: string): EtlError =>
  new EtlError('INTERNAL', `${name}: ${why}.`, { context: { anotherWay: true } })

/**
 * Thrown for the rows of many units where nobody has looked for repeated keys, or for rows that were not asked for: the caller rolls back, looks
 * for them, and merges again.
 */
export const needsAnotherWay = (error: unknown): boolean => error instanceof EtlError && error.context['anotherWay'] === true

/** Of a key that is there more than once. */
export const comesTwice = 'a key of the answer comes twice, which was not looked for'
