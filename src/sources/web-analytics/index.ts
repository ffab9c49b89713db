// The web-analytics service: keyword research, general batch reports, shopper reports.
import type { Source } from '../../extract/source.ts'
import { generalReport } from './general-report.ts'
import { keywords } from './keywords.ts'
import { shopperReport } from './shopper-report.ts'

export const sources: readonly Source[] = [keywords, generalReport, shopperReport]
