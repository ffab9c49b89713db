// A second template for all tests of a run, whose views are published: a command finds the warehouse as `millrace migrate` left it. After the
// set-up of the server and of the program.
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { publishViews } from './publish-views.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    publishedName: string
  }
}

export const setup = async (project: TestProject): Promise<void> => {
  const { postgresUrl, templateName } = project.getProvidedContext()
  const publishedName = `${templateName}_published`
  const admin = new pg.Client({ connectionString: postgresUrl })
  await admin.connect()
  await admin.query(`drop database if exists ${publishedName}`)
  await admin.query(`create database ${publishedName} template ${templateName}`)
  await admin.end()
  const url = new URL(postgresUrl)
  url.pathname = `/${publishedName}`
  await publishViews(url.href)
  // What a test puts into a copy before its first command is no sign that another warehouse worked under the template's name.
  const views = new pg.Client({ connectionString: url.href })
  await views.connect()
  await views.query('update etl.warehouse set home = null')
  await views.end()
  project.provide('publishedName', publishedName)
}
