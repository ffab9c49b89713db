// The landing: what the service sent, kept so that anything can be parsed again without a call. Here its place is chosen.
import type { BucketSetting, LandingSetting } from '../core/landing-setting.ts'
import { withPackages } from '../core/optional-package.ts'
import { openLandingFolder } from './landing-folder.ts'
import type { LandingStore } from './landing-store.ts'

export type { LandingName, Manifest } from './landing-files.ts'
export type { LandingStore } from './landing-store.ts'

/** Also what `export` to a bucket needs. */
export const bucketClient = '@aws-sdk/client-s3'

/** Neither a disk nor a network is touched before it is needed. */
export const openLandingStore = (setting: LandingSetting): LandingStore =>
  setting.kind === 'folder' ? openLandingFolder(setting.folder) : openLater(setting)

/** The client of buckets is large: it is read from disk with the first landing, by those who have a bucket. */
const openLater = (setting: BucketSetting): LandingStore => {
  let opened: Promise<LandingStore> | null = null
  const store = (): Promise<LandingStore> => {
    opened ??= withPackages('Landings in a bucket', [bucketClient], () => import('./landing-bucket.ts')).then(
      ({ openLandingBucket }) => openLandingBucket(setting),
    )
    return opened
  }
  return {
    place: `s3://${setting.bucket}/${setting.prefix}`,
    ready: async (signal) => (await store()).ready(signal),
    create: async (name, signal) => (await store()).create(name, signal),
    open: async (locator, signal) => (await store()).open(locator, signal),
    remove: async (locator) => (await store()).remove(locator),
    older: async function* (olderThanMs) {
      yield* (await store()).older(olderThanMs)
    },
    below: async function* (folder) {
      yield* (await store()).below(folder)
    },
    dropUnfinished: async (olderThanMs) => (await store()).dropUnfinished(olderThanMs),
    notes: {
      write: async (path, text, signal) => (await store()).notes.write(path, text, signal),
      read: async (path, signal) => (await store()).notes.read(path, signal),
      remove: async (path) => (await store()).notes.remove(path),
      list: async function* (folder, after, signal) {
        yield* (await store()).notes.list(folder, after, signal)
      },
    },
  }
}
