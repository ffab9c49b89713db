import { defineConfig } from 'vitest/config'
import { long, nightly, SlowestFirst, volume } from './test/support/long.ts'

// Nine projects: unit (no disk, network or database), volume (those of them that take seconds), db (a real PostgreSQL), e2e (the real command),
// long (what takes long of db and e2e, and commands against each other on one warehouse, judged by the sandbox and the tables alone),
// nightly (more of that, and the page in a browser, which the time limit of continuous integration has no room for),
// package (the packed program installed from npm; needs the registry, hence not part of `npm test`), image (the image built and run; needs Docker too), citus (needs a cluster).
// They share two cores with PostgreSQL itself, hence the low worker counts. Projects of one count run side by side.
const maxWorkers = 3
// In continuous integration, on machines that do other work, a test gets two more tries; the end of the log names each that needed one (test/support/count-reporter.ts).
const retry = process.env['CI'] === 'true' ? 2 : 0
const withProgram = ['postgres', 'program', 'published'].map((name) => `test/support/${name}.global.ts`)
/** Their files share no state, and half of the processor time went into new processes that read the same modules again. */
const isolate = false
export default defineConfig({
  test: {
    reporters: ['default', './test/support/count-reporter.ts'],
    sequence: { sequencer: SlowestFirst },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          isolate,
          retry,
          include: ['test/unit/**/*.test.ts', 'test/house.test.ts', 'test/contract/**/*.test.ts'],
          exclude: [...volume, ...long],
          testTimeout: 120_000,
          maxWorkers,
        },
      },
      { extends: true, test: { name: 'volume', isolate, retry, include: [...volume], testTimeout: 120_000, maxWorkers } },
      {
        extends: true,
        test: {
          name: 'db',
          isolate,
          retry,
          include: ['test/db/**/*.test.ts'],
          exclude: [...long, ...nightly],
          globalSetup: ['test/support/postgres.global.ts'],
          testTimeout: 60_000,
          hookTimeout: 120_000,
          maxWorkers,
        },
      },
      {
        extends: true,
        test: {
          name: 'e2e',
          isolate,
          retry,
          include: ['test/e2e/**/*.test.ts'],
          exclude: [...long, ...nightly],
          globalSetup: withProgram,
          testTimeout: 180_000,
          hookTimeout: 180_000,
          maxWorkers,
        },
      },
      ...Object.entries({ long, nightly }).map(([name, include]) => ({
        extends: true as const,
        test: {
          name,
          retry,
          include: [...include],
          globalSetup: withProgram,
          testTimeout: 180_000,
          hookTimeout: 180_000,
          // One more than the others: commands that wait for each other, for a deadline or for a lease leave the cores to the next file.
          maxWorkers: maxWorkers + 1,
          sequence: { groupOrder: 1 },
        },
      })),
      {
        extends: true,
        test: {
          name: 'package',
          retry,
          include: ['test/package/**/*.test.ts'],
          globalSetup: ['test/support/packed.global.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'citus',
          include: ['test/citus/**/*.test.ts'],
          globalSetup: ['test/support/postgres.global.ts'],
          testTimeout: 300_000,
          hookTimeout: 120_000,
        },
      },
      {
        extends: true,
        test: { name: 'image', include: ['test/image/**/*.test.ts'], testTimeout: 180_000, hookTimeout: 900_000 },
      },
    ],
  },
})
