// The landing: what the service sent, kept so that anything can be parsed again without a call. Here its place is chosen.
import type { LandingSetting } from '../core/landing-setting.ts'
import { openLandingFolder } from './landing-folder.ts'
import type { LandingStore } from './landing-store.ts'

export type { Manifest } from './landing-files.ts'
export type { LandingStore } from './landing-store.ts'

/** Throws DISK, LANDING_UNREACHABLE or LANDING_REFUSED where nothing could be landed, before anything is bought. */
export const openLandingStore = async (setting: LandingSetting): Promise<LandingStore> => {
  if (setting.kind === 'folder') return openLandingFolder(setting.folder)
  // The client of buckets is read from disk by those who have one.
  const { openLandingBucket } = await import('./landing-bucket.ts')
  return openLandingBucket(setting)
}
