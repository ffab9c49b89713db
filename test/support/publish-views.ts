// The views of `bi`, as `millrace migrate` publishes them before anything is loaded.
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipelinesOfRepository, runCommand } from './command.ts'

/** Of the repository's pipelines, by the real command. @param url of a migrated database */
export const publishViews = async (url: string): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-views-'))
  try {
    cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
    const { code, stderr } = await runCommand(['migrate'], { DATABASE_URL: url, MILLRACE_HOME: join(folder, 'home') }, folder)
    if (code !== 0) throw new Error(`the views were not published: ${stderr}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
