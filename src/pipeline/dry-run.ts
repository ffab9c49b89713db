// Placeholder until planning's helper has written the new one; see its predecessor in git.
import { EtlError } from '../core/errors.ts'

export const previewRun = async (..._: readonly unknown[]): Promise<never> => {
  throw new EtlError('INTERNAL', 'not written yet')
}
