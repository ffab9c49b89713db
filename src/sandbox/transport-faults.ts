// Faults that stand in for an answer or spoil one, whatever the endpoint.
import type { Exchange } from './exchange.ts'
import type { Fault } from './fault-kinds.ts'
import { type Family, html, jsonText, keyRefused, quotaExhausted, type Reply, refusal, retryAfter } from './reply.ts'

const waitHeader = ({ retryAfter: form, retryAfterSeconds }: Fault): Record<string, string> =>
  retryAfter(form ?? 'none', retryAfterSeconds ?? 1, Date.now())

/** The answer of a fault that keeps the request from taking effect; null: none acts. */
export const replyBeforeEffect = ({ fault, url }: Exchange, family: Family): Reply | null => {
  const tooMany = fault('status-429')
  if (tooMany !== null) return refusal(family, 429, 429, ['Too many requests'], waitHeader(tooMany))
  if (fault('status-500') !== null) return refusal(family, 500, 500, ['Internal server error'])
  if (fault('status-502') !== null) return html(502, '502 Bad Gateway')
  const unavailable = fault('status-503')
  if (unavailable !== null) return refusal(family, 503, 503, ['Service unavailable'], waitHeader(unavailable))
  if (fault('html-200') !== null) return html(200, 'Scheduled maintenance')
  if (fault('key-refused') !== null) return keyRefused(family)
  if (fault('quota-exhausted') !== null) return quotaExhausted(family)
  if (fault('country-refused') !== null) {
    return refusal(family, 400, 103, [
      `country: '${url.searchParams.get('country') ?? 'countries'}' is not available to this key`,
    ])
  }
  return null
}

/** The reply with its body spoiled, where such a fault acts. */
export const faultedReply = async (reply: Reply, fault: Exchange['fault']): Promise<Reply> => {
  if (reply.status === 200 && fault('malformed-json') !== null) {
    const text = (await bytesOf(reply)).toString('utf8')
    return jsonText(200, `${text.slice(0, Math.max(1, text.lastIndexOf(',')))} ]`)
  }
  if (fault('bad-gzip') !== null) {
    const headers = { ...reply.headers, 'content-encoding': 'gzip' }
    return { status: reply.status, headers, body: [brokenGzip] }
  }
  return reply
}

/** Begins like gzip and is not. */
const brokenGzip = Buffer.from('1f8b0800000000000003ffffffffff00112233445566778899', 'hex')

const bytesOf = async ({ body }: Reply): Promise<Buffer> => {
  const chunks: Buffer[] = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks)
}
