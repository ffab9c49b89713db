// Free questions about what the service offers one key.
import { systemClock } from '../core/clock.ts'
import { requireBaseUrl, requireKeys, type Settings } from '../config/env.ts'
import type { Log } from '../core/log.ts'
import { createService } from '../extract/http.ts'
import type { HttpClient } from '../extract/http-types.ts'
import { createRateBudget } from '../extract/rate.ts'
import {
  type Capabilities,
  type Credits,
  capabilities,
  credits,
  type Dataset,
  describe,
} from '../sources/web-analytics/discovery.ts'
import { pathsOf } from '../pipeline/open-runtime.ts'

export interface DiscoverRequest {
  readonly settings: Settings
  readonly account: string
  readonly log: Log
  readonly signal: AbortSignal
}

const client = ({ settings, account, log, signal }: DiscoverRequest): HttpClient => {
  const keys = requireKeys(settings, account)
  const service = createService({
    baseUrl: requireBaseUrl(settings),
    paths: pathsOf(settings),
    rest: keys.rest,
    batch: keys.batch,
    rate: createRateBudget({ requestsPerSecond: 10, clock: systemClock }),
    log,
    clock: systemClock,
  })
  return service.forUnit({ account, signal, timeoutMs: 30_000, attempts: 3, maxBodyBytes: 100_000_000, record: () => undefined })
}

/** null: the service does not tell. */
export const discoverDatasets = async (request: DiscoverRequest): Promise<readonly Dataset[] | null> => describe(client(request))

export const discoverCapabilities = async (request: DiscoverRequest): Promise<Capabilities | null> =>
  capabilities(client(request))

export const discoverCredits = async (request: DiscoverRequest): Promise<Credits | null> => credits(client(request))
