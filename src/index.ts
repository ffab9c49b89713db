// What a source in a user's own repository needs: `import { EtlError, type Source, walkPages } from 'millrace'`. Nothing else is public.

export type { Clock } from './core/clock.ts'
export type { Completeness } from './core/completeness.ts'
export { type ErrorCode, EtlError } from './core/errors.ts'
export type { ReportIntent, ReportMemo, ReportRecord } from './core/report.ts'
export type { DimensionSpec, FieldSpec, SourceSpec } from './core/source-spec.ts'
export type { Box, ColumnType, Definition, Fingerprint, IsoDate, Payload, Slice, Unit, Window } from './core/types.ts'
export type { HttpAnswer, HttpClient, HttpRequest, HttpStream } from './extract/http-types.ts'
export { type Page, type WalkOptions, walkPages } from './extract/paged.ts'
export { type FinishedReport, type ReportApi, type ReportOptions, type ReportStatus, runReport } from './extract/report.ts'
export type { Estimate, ExtractRequest, LookContext, Source, SourceContext } from './extract/source.ts'
