// What a folder of sources in a user's own repository needs: `import { type Api, EtlError, type Source } from 'millrace'`. Nothing else is public.

export { type Budget, noBudget } from './core/budget-scope.ts'
export type { Clock } from './core/clock.ts'
export type { Completeness } from './core/completeness.ts'
export type { DimensionColumn, DimensionTableSpec } from './core/dimension-table.ts'
export { type ErrorCode, EtlError } from './core/errors.ts'
export {
  checkSettings,
  type Environment,
  readAddress,
  readByPrefix,
  readCredits,
  readHosts,
  readKey,
  readOptionalKey,
  readRate,
  readText,
  settingOf,
} from './core/read-setting.ts'
export type { ColumnType } from './core/column-types.ts'
export { type Secret, secret } from './core/redact.ts'
export type { ReportIntent, ReportMemo, ReportRecord } from './core/report-shape.ts'
export type { AnswerForm, Dataset, DimensionSpec, FieldSpec, PeriodSpec, SourceSpec, Spelling } from './core/source-spec.ts'
export type { Box, Definition, Fingerprint, IsoDate, Payload, Slice, Unit, Window } from './core/types.ts'
export type { Allowance, Api, Capabilities, Credits, ServiceFinding } from './extract/api.ts'
export { parseJson, parsePage, type RecordPage } from './extract/http-answer.ts'
export type { Authentication, Connection, HttpAnswer, HttpClient, HttpRequest, HttpStream } from './extract/http-types.ts'
export { type Page, type WalkOptions, walkPages } from './extract/paged.ts'
export { runReport } from './extract/report.ts'
export type { FinishedReport, ReportApi, ReportOptions, ReportStatus } from './extract/report-api.ts'
export type { Estimate, ExtractRequest, ProbeContext, Source, SourceContext } from './extract/source.ts'
