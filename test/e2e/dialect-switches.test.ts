// Fifty switches of the dialect in the middle of a backfill: what `npm test` does with one seed.
process.env['MILLRACE_DIALECT_SWITCHES'] ??= '50'
await import('./dialects.test.ts')
