// One request as the ledger keeps it: where, how long, how much, with what outcome.
import type { HttpRequest, UnitHttpOptions } from './http.ts'

/** Begins the record; the function it returns ends it and hands it over. */
export const recorder = (options: UnitHttpOptions, request: HttpRequest, attempt: number) => {
  const startedAt = new Date()
  const started = performance.now()
  return (status: number | null, bytes: number, errorCode: string | null): void =>
    options.record({
      account: options.account,
      method: request.method,
      endpoint: request.endpoint,
      parameters: {
        ...Object.fromEntries(request.url.searchParams),
        ...(request.body === undefined ? {} : { body: request.body }),
      },
      part: request.part ?? null,
      attempt,
      status,
      errorCode,
      bytes,
      sha256: null,
      startedAt: startedAt.toISOString(),
      milliseconds: performance.now() - started,
    })
}
