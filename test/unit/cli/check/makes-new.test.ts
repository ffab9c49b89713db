// Which pending migrations `check` may try beside loads.
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { touchesWhatIsThere } from '../../../../src/cli/check/check-tables.ts'
import { loadMigration, migrationFiles, statementsOf } from '../../../../src/db/migration-files.ts'

test.each([
  [['create table data.x_v1 (a text)', 'create index on data.x_v1 (a)', `comment on column data.x_v1.a is 'a'`]],
  [['create table "data"."x_v1" (a text)', 'create unique index named on only "data"."x_v1" (a)']],
  [
    [
      'create table bi.dim_x (x text primary key)',
      'create table data.y (x text references bi.dim_x)',
      'insert into data.y values (1)',
    ],
  ],
  [['create schema if not exists bi', `comment on schema bi is 'read'`]],
  [['create table data.x (a date) partition by range (a)', 'create table data.x_1 partition of data.x default']],
])('%j makes only what is new', (statements) => {
  expect(touchesWhatIsThere(statements)).toBe(null)
})

test.each([
  'create index on data.keywords_v1 (keyword)',
  'create unique index named on only "data"."keywords_v1" (keyword)',
  'CREATE INDEX IF NOT EXISTS one ON data.keywords_v1 USING btree (keyword)',
  `comment on column data.keywords_v1.clicks is 'Clicks'`,
  `comment on table data.keywords_v1 is 'Keywords'`,
  'insert into etl.marts select 1',
  'create table data.y (x text references bi.dim_domain)',
  'create table data.y partition of data.keywords_v1 default',
  'create table data.y () inherits (data.keywords_v1)',
  'alter table data.keywords_v1 add column a text',
  'update data.keywords_v1 set clicks = 1',
  'drop view bi.keywords',
  'create trigger t after insert on data.keywords_v1 execute function f()',
  'do $$ begin end $$',
])('%s touches what is there', (statement) => {
  expect(touchesWhatIsThere(['create table data.x_v1 (a text)', statement])).toBe(statement)
})

test('a table that may be there already is not new', () => {
  const index = 'create index on bi.dim_x (x)'
  expect(touchesWhatIsThere(['create table if not exists bi.dim_x (x text)', index])).toBe(index)
})

test('the migrations of the datasets that ship are only new', async () => {
  const files = await migrationFiles([join(import.meta.dirname, 'none')])
  for (const [name, file] of files)
    if (/_v\d+$/.test(name)) expect(touchesWhatIsThere(await statementsOf((await loadMigration(name, file)).up)), name).toBe(null)
})
