// The web-analytics service: keyword research, general batch reports, shopper reports.
import type { Api } from '../../extract/api.ts'
import type { Source } from '../../extract/source.ts'
import { check } from './check-definition-params.ts'
import { capabilities, describe, balances } from './discovery.ts'
import { generalReport, shopperReport } from './batch-reports.ts'
import { keywords } from './keywords.ts'
import { releases } from './release-calendar.ts'
import { allowance, connection, secrets, settings } from './settings.ts'

/** The service as a whole. */
export const api: Api = { secrets, settings, connection, allowance, describe, capabilities, credits: balances, releases, check }

/** Its datasets, as definitions name them. */
export const sources: readonly Source[] = [keywords, generalReport, shopperReport]
