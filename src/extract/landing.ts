// The landing: what the service sent, kept so that anything can be parsed again without a call. Here its place is chosen.
import type { LandingSetting } from '../core/landing-setting.ts'
import { withPackages } from '../core/optional-package.ts'
import { openLandingFolder } from './landing-folder.ts'
import type { LandingStore } from './landing-store.ts'

/** Also what `export` to a bucket needs. */
export const bucketClient = '@aws-sdk/client-s3'

/** Neither a disk nor a network is touched before it is needed. The client of buckets is large: it is read from disk by those who have a bucket. */
export const openLandingStore = async (setting: LandingSetting): Promise<LandingStore> => {
  if (setting.kind === 'folder') return openLandingFolder(setting.folder)
  const load = () => import('./landing-bucket.ts')
  const { openLandingBucket } = await withPackages('Landings in a bucket', [bucketClient], load)
  return openLandingBucket(setting)
}
