// The address to which services send webhooks: this program's address from outside, with a secret part of the path.
import { createHmac } from 'node:crypto'
import { isEncryptedOrLocal, plainAddress } from './address.ts'
import { settingError } from './errors.ts'
import { type Environment, readAll } from './read-setting.ts'
import { unregisteredSecret, type Secret, secret } from './redact.ts'

const addressName = 'MILLRACE_PUBLIC_URL'
const secretName = 'MILLRACE_HOOK_SECRET'
const shortestSecret = 16

export type Hooks = NonNullable<ReturnType<typeof hooksSetting>>

/** null: no secret is set, so no webhook is received. Throws CONFIGURATION. */
export const hooksSetting = (raw: Environment) => {
  const [base, key] = readAll([() => publicAddress(raw), () => secretOf(raw)])
  if (key === null) return null
  secret(secretName, key)
  // A hash, not the secret itself: an address that leaks does not reveal the secret.
  const token = secret('path of webhooks', createHmac('sha256', key).update('millrace webhooks').digest('hex').slice(0, 40))
  // `redact` already knows the secret part; one more secret for each of a million reports would make it slow.
  const addressOf = (path: string): Secret | null =>
    base === null ? null : unregisteredSecret('address of a webhook', `${base}/hooks/${token.reveal()}/${path}`)
  return {
    /** The part of the path that only the service and we know. */
    token,
    /** Whole addresses; secret, since knowing an address is enough to send a message. null: no address is set. */
    releaseAddress: (api: string, account: string) =>
      addressOf(`releases/${encodeURIComponent(api)}/${encodeURIComponent(account)}`),
    reportAddress: (jobId: number) => addressOf(`reports/${jobId}`),
  }
}

const secretOf = (raw: Environment): string | null => {
  const key = raw[secretName]?.trim()
  const advice = 'make one with `openssl rand -hex 24`.'
  if (!key && raw[addressName]) throw settingError(`${addressName} is set and ${secretName} is not; ${advice}`)
  if (!key) return null
  if (key.length < shortestSecret) throw settingError(`${secretName} is shorter than ${shortestSecret} characters; ${advice}`)
  return key
}

const publicAddress = (raw: Environment): string | null => {
  const text = raw[addressName]
  if (!text) return null
  const url = plainAddress(text)
  if (url === null || !isEncryptedOrLocal(url))
    throw settingError(`${addressName} is '${text}', expected an https address such as https://etl.example.com.`)
  return url.href.replace(/\/$/, '')
}

/** Handles messages to the secret path; resolves to the HTTP status of the reply. */
export interface HookReceiver {
  readonly token: Secret
  /** @param header reads a header of the request */
  release(api: string, account: string, body: unknown, header: (name: string) => string | null): Promise<number>
  report(jobId: number, body: unknown): Promise<number>
}
