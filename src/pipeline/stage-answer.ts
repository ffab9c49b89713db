// One answer into staging: its parts parsed as they are read, in whatever chunks suit the COPY.
import { type EtlError, isEtlError } from '../core/errors.ts'
import { inSpan } from '../core/trace.ts'
import type { Payload } from '../core/types.ts'
import type { Staging } from '../load/staging.ts'
import type { ParsedChunk } from '../parse/copy-text.ts'
import { createAnswerParser } from '../parse/parse.ts'
import type { ParsePlan } from '../parse/plan.ts'
import type { ParseReport } from '../parse/report.ts'
import type { JobWork } from './job-work.ts'
import type { Runtime } from './runtime.ts'

/** Rows of small parts wait this long at most for those of the next: a write costs as much for one page as for ten. */
const longestWaitMs = 200

/** What staging needs of the work on a job. */
export interface StageWork extends Pick<JobWork, 'claim'> {
  readonly runtime: Pick<Runtime, 'progress' | 'clock'>
}

export interface StagedParts<Result> {
  /** What the parts returned. */
  readonly result: Result
  /** Parsing gave up on an answer that is nothing but rejects; its bytes were read to their end all the same. null: it did not. */
  readonly refusal: EtlError | null
}

/**
 * Reads every part to its end and stages its rows. Afterwards everything is in the table, or all of it waits in `staging` because it is
 * little. What was parsed is counted in `parsed`, also where this throws.
 */
export const stageParts = async <Result>(
  work: StageWork,
  plan: ParsePlan,
  staging: Staging,
  parsed: ParseReport,
  parts: AsyncGenerator<Payload, Result, void>,
): Promise<StagedParts<Result>> => {
  const stage = createStage(work, plan, staging, parsed)
  let refusal: EtlError | null = null
  for (;;) {
    const next = await parts.next()
    if (next.done === true) {
      if (refusal === null) await stage.end()
      return { result: next.value, refusal }
    }
    const { value } = next
    if (refusal === null)
      refusal = await inSpan('parse', { 'millrace.job': work.claim.box.key, 'millrace.part': value.part }, () =>
        stage.take(value),
      )
    else await passOver(value)
  }
}

/** A part's rows may wait for those of the next. */
interface Stage {
  /** The error that ends parsing for good, with the part read to its end; null: it went well. */
  take(payload: Payload): Promise<EtlError | null>
  end(): Promise<void>
}

const createStage = ({ runtime }: StageWork, plan: ParsePlan, staging: Staging, parsed: ParseReport): Stage => {
  const parser = createAnswerParser(plan, parsed)
  let counted = 0
  let writtenAt = runtime.clock.now()
  const write = async (chunk: ParsedChunk | null): Promise<void> => {
    if (chunk !== null) await staging.write(chunk)
    writtenAt = runtime.clock.now()
    runtime.progress.counters.rowsRead += parsed.rows - counted
    counted = parsed.rows
  }
  return {
    take: async (payload) => {
      const body = payload.body[Symbol.asyncIterator]()
      // The parser lets go of bytes it gives up on; the landing wants them all.
      const kept = { ...payload, body: { [Symbol.asyncIterator]: () => ({ next: () => body.next() }) } }
      try {
        for await (const chunk of parser.parse(kept)) await write(chunk)
        if (runtime.clock.now() - writtenAt >= longestWaitMs) await write(parser.rest())
        return null
      } catch (error) {
        if (!isEtlError(error) || error.code !== 'TOO_MANY_REJECTS') {
          await body.return?.().catch(() => undefined)
          throw error
        }
        for (let next = await body.next(); next.done !== true; next = await body.next());
        return error
      }
    },
    end: async () => {
      await write(parser.rest())
      if (staging.held() === null) await staging.flush()
    },
  }
}

const passOver = async ({ body }: Payload): Promise<void> => {
  for await (const _ of body) {
    // The landing writes the bytes as they are pulled.
  }
}
