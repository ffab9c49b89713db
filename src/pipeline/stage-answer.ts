// One answer on its way into staging: its parts parsed as they are read, in whatever chunks suit the COPY.
import { inSpan } from '../core/trace.ts'
import type { Payload } from '../core/types.ts'
import type { Staging } from '../load/staging.ts'
import type { ParsedChunk } from '../parse/copy-text.ts'
import { createAnswerParser } from '../parse/parse.ts'
import type { ParsePlan } from '../parse/plan.ts'
import { createParseReport, type ParseReport } from '../parse/report.ts'
import type { UnitWork } from './unit-work.ts'

export interface AnswerStage {
  readonly staging: Staging
  readonly parsed: ParseReport
  /** Reads the part to its end; its rows may wait for those of the next. */
  take(payload: Payload): Promise<void>
  /** Everything taken is in the table after this, or all of it waits in `staging` because it is little; asked again, it answers the same. */
  end(): Promise<void>
}

/** Rows of small parts wait this long at most for those of the next: a write costs as much for one page as for ten. */
const longestWaitMs = 200

export const createAnswerStage = ({ claim, runtime }: UnitWork, plan: ParsePlan, staging: Staging): AnswerStage => {
  const parsed = createParseReport()
  const parser = createAnswerParser(plan, parsed)
  let counted = 0
  let writtenAt = runtime.clock.now()
  const write = async (chunk: ParsedChunk | null): Promise<void> => {
    if (chunk !== null) await staging.write(chunk)
    writtenAt = runtime.clock.now()
    runtime.progress.counters.rowsRead += parsed.rows - counted
    counted = parsed.rows
  }
  const takePart = async (payload: Payload): Promise<void> => {
    for await (const chunk of parser.parse(payload)) await write(chunk)
    if (runtime.clock.now() - writtenAt >= longestWaitMs) await write(parser.rest())
  }
  const endCopy = async (): Promise<void> => {
    await write(parser.rest())
    if (staging.held() === null) await staging.flush()
  }
  let ending: Promise<void> | null = null
  return {
    staging,
    parsed,
    take: (payload) =>
      inSpan('parse', { 'millrace.unit': claim.unit.key, 'millrace.part': payload.part }, () => takePart(payload)),
    end: () => {
      ending ??= endCopy()
      return ending
    },
  }
}
