// Whole files put into a bucket under a prefix, for what leaves the warehouse.
import { createReadStream } from 'node:fs'
import type { BucketSetting } from '../core/landing-setting.ts'
import { openBucket } from './bucket.ts'
import { openUpload } from './bucket-upload.ts'

/** Small texts and files in a bucket, by name; one is visible only when whole. Throws LANDING_REFUSED or LANDING_UNREACHABLE when it is used. */
export const openBucketFiles = (setting: BucketSetting, signal: AbortSignal) => {
  const bucket = openBucket(setting)
  const keyOf = (name: string): string => `${setting.prefix}${name}`
  return {
    place: bucket.placeOf(setting.prefix.replace(/\/$/, '')),
    /** Null where there is none. */
    text: (name: string) => bucket.text(keyOf(name), signal),
    putText: (name: string, text: string) => bucket.put(keyOf(name), Buffer.from(text), signal),
    putFile: async (name: string, file: string) => {
      const upload = openUpload(bucket, keyOf(name), signal)
      try {
        for await (const chunk of createReadStream(file, { signal })) await upload.write(chunk)
        await upload.close()
      } catch (error) {
        await upload.abort(AbortSignal.timeout(5_000))
        throw error
      }
    },
    /** Nothing happens where there is none. */
    remove: (name: string) => bucket.remove(keyOf(name), signal),
  }
}
