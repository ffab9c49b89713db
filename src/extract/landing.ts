// The landing: what the service sent, kept so that anything can be parsed again without a call. Here its place is chosen.
import type { LandingSetting } from '../core/landing-setting.ts'
import { withPackages } from '../core/optional-package.ts'
import { openLandingFolder } from './landing-folder.ts'
import type { LandingStore } from './landing-store.ts'

/** Also what `export` to a bucket needs. */
export const bucketClient = '@aws-sdk/client-s3'

/** Touches neither disk nor network yet. The client of buckets is large, so it is loaded only where there is a bucket. */
export const openLandingStore = async (setting: LandingSetting): Promise<LandingStore> => {
  if (setting.kind === 'folder') return openLandingFolder(setting.folder)
  const load = () => import('./landing-bucket.ts')
  const { openLandingBucket } = await withPackages('Landings in a bucket', [bucketClient], load)
  return openLandingBucket(setting)
}
