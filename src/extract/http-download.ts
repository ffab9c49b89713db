// A finished report's body from whatever address the service names, never with the key.
import { EtlError } from '../core/errors.ts'
import { allowedDownload } from './download-address.ts'
import type { HttpRequest, HttpStream, ServiceOptions, UnitHttpOptions } from './http.ts'
import { classify } from './http-failure.ts'
import { recorder } from './http-record.ts'
import { type Agents, send } from './http-send.ts'

const maxRedirects = 3

export const download = async (
  service: ServiceOptions,
  agents: Agents,
  options: UnitHttpOptions,
  link: string,
): Promise<HttpStream> => {
  let url = link
  for (let redirects = 0; ; redirects += 1) {
    const target = allowedDownload(url, service.baseUrl)
    await service.rate.take(options.signal)
    // A signed link is a secret of its own: the ledger keeps host and path.
    const request: HttpRequest = {
      method: 'GET',
      endpoint: `${target.origin}${target.pathname}`,
      url: new URL(target.origin),
      key: 'none',
      idempotent: true,
    }
    const log = recorder(options, request, 1)
    try {
      const answer = await send({
        agents,
        url: target,
        method: 'GET',
        headers: {},
        body: null,
        options,
        fresh: false,
        maxBytes: options.maxBodyBytes,
        guarded: service.baseUrl,
      })
      const location = answer.headers['location']
      if (answer.status >= 300 && answer.status < 400 && location !== undefined) {
        await answer.discard()
        log(answer.status, 0, null)
        if (redirects >= maxRedirects)
          throw new EtlError(
            'BAD_RESPONSE',
            `The download was redirected more than ${maxRedirects} times; ask the service for a new link.`,
          )
        url = new URL(location, target).href
        continue
      }
      return {
        status: answer.status,
        contentType: answer.headers['content-type'] ?? '',
        body: counted(answer.body, (bytes, error) => log(answer.status, bytes, error), request, options.signal),
      }
    } catch (error) {
      const failure = classify(error, request, options.signal)
      if (!(error instanceof EtlError)) log(null, 0, failure.code)
      throw failure
    }
  }
}

async function* counted(
  body: AsyncIterable<Uint8Array>,
  done: (bytes: number, errorCode: string | null) => void,
  request: HttpRequest,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let bytes = 0
  try {
    for await (const chunk of body) {
      bytes += chunk.length
      yield chunk
    }
    done(bytes, null)
  } catch (error) {
    const failure = classify(error, request, signal)
    done(bytes, failure.code)
    throw failure
  }
}
