// Names of landings for tests: what is asked for, and who asks.
import type { Box } from '../../src/core/types.ts'
import { boxOf } from '../../src/core/unit-key.ts'
import type { LandingName } from '../../src/extract/landing-files.ts'

export const boxOfCountries = (countries: readonly string[], pipeline = 'keywords'): Box =>
  boxOf({
    pipeline,
    version: 1,
    window: { from: '2026-01-01', to: '2026-02-01' },
    dimensions: ['country'],
    slices: countries.map((country) => [country]),
  })

export const landingName = (given: Partial<LandingName> = {}): LandingName => ({
  box: boxOfCountries(['us']),
  warehouse: { id: '5b1c7d2e-4a51-4f0e-9a57-0a4f5f1f7c11', epoch: 1 },
  askNumber: '1',
  fence: '1',
  nonce: 'c0ffee',
  ...given,
})
