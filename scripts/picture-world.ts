// What the pictures of the docs show: a warehouse of its own, filled by real commands from the sandbox. Two nights, then a domain comes to the list.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Database, openDatabase } from '../src/db/connect.ts'
import { type Sandbox, startSandbox } from '../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository, runCommand } from '../test/support/command.ts'

const firstMonth = '2026-01'
const lists = {
  before: ['example.com', 'example.org', 'shop.example'],
  after: ['example.com', 'example.org', 'shop.example', 'example.net'],
}
const tags = { keywords: 'acme', traffic_and_engagement: 'acme', shopper_category_performance: 'beta' }

export interface PictureWorld {
  /** Where commands are started; holds `pipelines`. */
  readonly folder: string
  readonly environment: Readonly<Record<string, string>>
  /** What the command prints. A run that holds something back ends with 1; any other end than 0 throws. */
  said(...args: string[]): Promise<string>
  /** The domain that comes to the list. */
  addDomain(): void
  close(): Promise<void>
}

/** Settings of a command that loads from the sandbox as fast as it answers. */
export const environmentOf = (sandbox: Sandbox, { url }: Database, home: string) => ({
  WEB_ANALYTICS_BASE_URL: sandbox.url,
  WEB_ANALYTICS_API_KEY: sandbox.apiKey,
  WEB_ANALYTICS_REQUESTS_PER_SECOND: '1000',
  DATABASE_URL: url.reveal(),
  MILLRACE_HOME: home,
})

/** Migrated, nothing loaded. */
export const openPictureWorld = async (): Promise<PictureWorld> => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-pictures-'))
  const sandbox = await startSandbox({ requestsPerSecond: null, keywordsPerDomain: 2_500, quota: 100_000 })
  const home = join(folder, 'home')
  const database = await openDatabase({ databaseUrl: null, home })
  const environment = environmentOf(sandbox, database, home)
  const said = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await runCommand(args, environment, folder)
    if (code !== 0 && !(code === 1 && args[0] === 'run'))
      throw new Error(`millrace ${args.join(' ')}: ${code}\n${stdout}${stderr}`)
    return stdout.trimEnd()
  }
  writePipelines(folder)
  await said('migrate')
  return {
    folder,
    environment,
    said,
    addDomain: () => writeFileSync(join(folder, 'pipelines', 'domains.txt'), linesOf(lists.after)),
    close: async () => {
      await sandbox.close()
      await database.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const linesOf = (values: readonly string[]): string => values.map((one) => `${one}\n`).join('')

const writePipelines = (folder: string): void => {
  const pipelines = join(folder, 'pipelines')
  cpSync(pipelinesOfRepository, pipelines, { recursive: true })
  writeFileSync(join(pipelines, 'domains.txt'), linesOf(lists.before))
  for (const [name, client] of Object.entries(tags)) {
    const file = join(pipelines, `${name}.yaml`)
    const text = readFileSync(file, 'utf8')
      .replace(/from: \d{4}-\d{2}/, `from: ${firstMonth}`)
      .replace(/country: \[.*\]/, 'country: [us, gb]')
      .replace(/(limits: \{.*) \}/, name === 'keywords' ? '$1 }' : '$1, quota_per_month: 4000 }')
    writeFileSync(file, `${text}\ntags: { client: ${client} }\n`)
  }
}
