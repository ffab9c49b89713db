// The semantic files of a check: every line understood, every column there, every formula accepted by PostgreSQL.
import { sql } from 'kysely'
import { counted } from '../../core/counted.ts'
import { messageOf } from '../../core/errors.ts'
import { columnNames } from '../../db/catalog.ts'
import { isDatabaseError } from '../../db/database-error.ts'
import type { Db } from '../../db/tables.ts'
import { type Problem, showProblem, suggest } from '../../definition/problem.ts'
import type { EntryPlace, SemanticModel, Subject } from '../../definition/semantic.ts'
import { readSemantics } from '../../definition/semantic-model.ts'
import { formulaSql } from '../../semantic/formula.ts'
import { type Notes, note } from './notes.ts'

/** Without a database: what the files say. @returns the model as far as it is right */
export const checkSemanticFiles = async (folders: readonly string[], notes: Notes): Promise<SemanticModel> => {
  const { model, problems, files } = await readSemantics(folders)
  for (const problem of problems) note(notes, 'semantic', 'error', showProblem(problem))
  if (problems.length === 0) note(notes, 'semantic', 'proved', `${counted(files.length, 'semantic file')} are understood.`)
  return model
}

/** Against the views of a migrated warehouse. Changes nothing. */
export const checkSemanticColumns = async (db: Db, { subjects }: SemanticModel, notes: Notes): Promise<void> => {
  let good = 0
  for (const subject of subjects.values()) {
    const columns = await columnNames(db, `bi.${subject.view}`)
    if (columns.length === 0) {
      note(notes, 'semantic', 'not asked', `${subject.name}: bi.${subject.view} is not there; its pipeline is not defined here.`)
      continue
    }
    const problems = [...(await columnProblems(db, subject, columns)), ...(await formulaProblems(db, subject))]
    for (const problem of problems) note(notes, 'semantic', 'error', showProblem(problem))
    if (problems.length === 0) good += subject.metrics.size
  }
  if (good > 0) note(notes, 'semantic', 'proved', `${counted(good, 'metric')} are made of columns that are there.`)
}

const columnProblems = async (db: Db, subject: Subject, columns: readonly string[]): Promise<Problem[]> => {
  const { time, grain, dimensions, view } = subject
  const own = [
    ...(time === null ? [] : [{ at: subject.at, column: time.column }]),
    ...grain.map((column) => ({ at: subject.at, column })),
    ...[...dimensions.values()].filter(({ of }) => of === null).map(({ at, column }) => ({ at, column })),
  ]
  const problems = own.flatMap(({ at, column }) => missing(at, column, view, columns))
  for (const { at, entity, of, column, table: beside } of dimensions.values()) {
    const root = of === null ? null : (dimensions.get(of)?.entity ?? null)
    const table = root ?? entity
    if (table === null) continue
    const name = beside ?? table.table
    problems.push(...missing(at, root === null ? table.key : column, name, await columnNames(db, `bi.${name}`)))
  }
  return problems
}

const missing = (at: EntryPlace, column: string, view: string, columns: readonly string[]): Problem[] =>
  columns.includes(column)
    ? []
    : [{ ...placeOnly(at), message: `bi.${view} has no column '${column}'.${suggest(column, columns)} Correct the name.` }]

const placeOnly = ({ file, line, column }: EntryPlace) => ({ file, line, column })

const formulaProblems = async (db: Db, subject: Subject): Promise<Problem[]> => {
  const problems: Problem[] = []
  for (const metric of subject.metrics.values())
    try {
      await sql`explain select ${sql.raw(formulaSql(metric, subject))} from ${sql.table(`bi.${subject.view}`)} as facts`.execute(
        db,
      )
    } catch (error) {
      if (!isDatabaseError(error)) throw error
      problems.push({ ...placeOnly(metric.at), message: `${metric.name}: ${messageOf(error)}. Correct its formula.` })
    }
  return problems
}
