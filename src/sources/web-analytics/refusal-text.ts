// A refusal as it was said: its status, the code in its body and its words, in whichever of the shapes seen (api-facts A 6, 10, G 62).
import { z } from 'zod'
import { jsonOrNull } from '../../core/json.ts'
import { redact } from '../../core/redact.ts'
import type { HttpAnswer } from '../../extract/http-types.ts'
import { excerpt, oneLine } from '../../extract/http-answer.ts'

const texts = z.union([z.string(), z.array(z.unknown())]).nullish()
const coded = z.object({ code: z.unknown().optional(), error_code: z.unknown().optional(), error_message: texts })
const errorBody = coded.extend({
  errors: texts,
  message: texts,
  error: z.union([z.string(), coded.extend({ message: texts, actions: texts })]).nullish(),
  actions: texts,
  meta: coded.nullish(),
})

/** What the service says instead of an answer (interface 7). */
export type Refusal = Readonly<ReturnType<typeof readRefusal>>

const longestText = 500

const flat = (value: z.infer<typeof texts>): string[] =>
  value === null || value === undefined
    ? []
    : [value].flat().map((item) => (typeof item === 'string' ? item : JSON.stringify(item)))

/** Reads a refusal in any of the shapes seen: errors[], meta.*, error.{code,message}, flat fields, plain text. */
export const readRefusal = ({ status, bytes }: Pick<HttpAnswer, 'status' | 'bytes'>) => {
  const parsed = errorBody.safeParse(jsonOrNull(bytes.toString('utf8')))
  if (!parsed.success) return { status, code: null, text: excerpt(bytes) }
  const { errors, error_message, message, error, meta, actions } = parsed.data
  const inner = typeof error === 'string' ? { message: error } : (error ?? {})
  const said = [errors, error_message, message, inner.message, inner.error_message, meta?.error_message, inner.actions, actions]
    .flatMap(flat)
    .filter(Boolean)
  // What an answer that is no refusal has for a code at its top says nothing.
  const code = codeIn(meta, error, ...(status >= 400 ? [parsed.data, errors].flat() : []))
  return {
    status,
    /** In-body code (101, 102, 103, FORBIDDEN_ERROR ...), as text. */
    code: code === null ? null : String(code).toUpperCase(),
    /** What the body says, on one line. A service may repeat the key it refuses. */
    text: redact(oneLine(said.join('; '))).slice(0, longestText) || excerpt(bytes),
  }
}

/** The first there is. */
const codeIn = (...places: readonly unknown[]): unknown => {
  const found = places.flatMap((place) => coded.partial().safeParse(place).data ?? [])
  return found.map(({ code, error_code }) => error_code ?? code).find((code) => code !== undefined && code !== null) ?? null
}
