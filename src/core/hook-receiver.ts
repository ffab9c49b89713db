// Between the server, which knows HTTP, and the code that knows what the messages of services mean.
import type { Secret } from './redact.ts'

/** What came to the secret path, and the HTTP status it is answered with. */
export interface HookReceiver {
  readonly token: Secret
  /** @param header reads a header of the request */
  release(api: string, account: string, body: unknown, header: (name: string) => string | null): Promise<number>
  report(jobId: number, body: unknown): Promise<number>
}
