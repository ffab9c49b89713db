// What is wrong in the same way twice is a fact and no moment: when an answer is not asked for again, and when a service is thought broken.
import { EtlError, isEtlError } from '../core/errors.ts'
import { redact } from '../core/redact.ts'

/** To be remembered, or read from the ledger, where words that say what comes next follow it. */
export const faultOf = ({ fault, message }: EtlError): string => redact(fault ?? message)

/** @param before null: nothing was wrong before */
export const isSameFault = (error: EtlError, before: string | null): boolean => before?.startsWith(faultOf(error)) === true

/** Pages are not paid for again and again. @param seen why not, as a sentence without its stop */
export const unusable = (error: EtlError, seen: string): EtlError =>
  new EtlError(
    'UNUSABLE',
    `${error.message.replace(/; the next run reads it again\.$/, '.')} ${seen} and is not paid for again by itself. ` +
      'Ask the service; to read it again: `millrace backfill … --force`.',
    { cause: error, fault: faultOf(error) },
  )

/** Nothing, or half a page, may be a moment's: it is asked for again until it is wrong as it was before. Throws UNUSABLE then. */
export const untilSameFault = async <T>(ask: () => Promise<T>): Promise<T> => {
  const before: string[] = []
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!isEtlError(error) || error.fault === null || error.retry !== 'now') throw error
      if (before.some((fault) => isSameFault(error, fault))) throw unusable(error, 'It came so twice')
      before.push(faultOf(error))
    }
  }
}
