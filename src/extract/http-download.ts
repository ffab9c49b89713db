// A finished report's body from whatever address the service names, never authenticated.
import { EtlError } from '../core/errors.ts'
import { watchWait } from '../core/waiting.ts'
import { allowedDownload } from './download-address.ts'
import type { HttpRequest, HttpStream, OpenService, UnitHttpOptions } from './http-types.ts'
import { excerpt } from './http-answer.ts'
import { type Asked, classify, type Progress } from './http-failure.ts'
import { type Outcome, recorder } from './http-record.ts'
import { isRedirect } from './http-redirect.ts'
import { withRetries } from './http-retry.ts'
import { type Agents, type RawAnswer, send } from './http-send.ts'

const maxRedirects = 3

interface Opened extends RawAnswer {
  readonly finish: (outcome: Omit<Outcome, 'status'>) => void
  readonly progress: Progress
}

/** Without the key, also to another host. Throws the errors of docs/operations.md. */
export const download = async (
  service: OpenService,
  agents: Agents,
  options: UnitHttpOptions,
  link: string,
): Promise<HttpStream> => {
  const hosts = service.allowedDownloadHosts ?? null
  let target = allowedDownload(link, service.baseUrl, service.baseUrl, hosts)
  for (let redirects = 0; ; redirects += 1) {
    const request = downloadRequest(target)
    const answer = await withRetries(service, options, request, (attempt, progress) =>
      open(service, agents, options, request, target, attempt, progress),
    )
    const asked = { request, signal: options.signal, addressSetting: service.addressSetting }
    if (!isRedirect(answer)) return streamOf(answer, asked)
    if (redirects >= maxRedirects)
      throw new EtlError(
        'BAD_RESPONSE',
        `The download was redirected more than ${maxRedirects} times, last to ${target.origin}${target.pathname}; ask the service for a new link.`,
      )
    target = allowedDownload(answer.headers['location'] ?? '', target, service.baseUrl, hosts)
  }
}

/** A signed link is a secret of its own: the ledger keeps host and path. */
const downloadRequest = (target: URL): HttpRequest => ({
  method: 'GET',
  endpoint: target.pathname,
  url: new URL(target.origin),
  idempotent: true,
  // Hosts of downloads have neither the account's rate nor its troubles.
  place: 'downloads',
})

const open = async (
  service: OpenService,
  agents: Agents,
  options: UnitHttpOptions,
  request: HttpRequest,
  url: URL,
  attempt: number,
  progress: Progress,
): Promise<Opened> => {
  const log = recorder(options, { ...request, endpoint: `${url.origin}${url.pathname}` }, attempt, service.clock.now())
  try {
    const answer = await send({
      dispatcher: agents.guarded(options.timeoutMs, service.baseUrl, service.allowedDownloadHosts ?? []),
      url,
      addressSetting: service.addressSetting,
      method: 'GET',
      headers: {},
      body: null,
      options,
      maxBytes: options.maxBodyBytes,
      progress,
    })
    // Only a report is read; what a refusal says is not worth a connection that stays open.
    if (answer.status !== 200) {
      await answer.discard()
      log({ status: answer.status, bytes: 0 })
    }
    return { ...answer, finish: (outcome) => log({ status: answer.status, ...outcome }), progress }
  } catch (error) {
    const failure = classify(error, { ...service, ...options, request }, progress)
    log({ status: null, bytes: 0, errorCode: failure.code })
    throw failure
  }
}

const streamOf = (answer: Opened, asked: Asked): HttpStream => ({
  status: answer.status,
  contentType: answer.headers['content-type'] ?? '',
  body: answer.status === 200 ? watched(answer, asked) : nothing(),
})

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** Counts what is read and says what a failure on the way means. Ends the record also where the reader goes away. */
async function* watched(answer: Opened, asked: Asked): AsyncGenerator<Uint8Array> {
  const html = /\bhtml\b/i.test(answer.headers['content-type'] ?? '')
  let bytes = 0
  const { url, endpoint } = asked.request
  const over = watchWait(
    `download ${endpoint}`,
    (lasted) => `${url.origin}${endpoint}: the download has brought ${bytes} bytes in ${lasted} s.`,
  )
  try {
    for await (const chunk of answer.body) {
      if (html) throw notAReport(asked.request, chunk)
      bytes += chunk.length
      yield chunk
    }
    answer.finish({ bytes })
  } catch (error) {
    const failure = classify(error, asked, answer.progress)
    answer.finish({ bytes, errorCode: failure.code })
    throw failure
  } finally {
    over()
    answer.finish({ bytes, errorCode: 'INTERRUPTED' })
  }
}

const notAReport = ({ url, endpoint }: HttpRequest, chunk: Uint8Array): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `${url.origin}${endpoint} answers the download with a web page instead of a report: "${excerpt(chunk)}".`,
  )
