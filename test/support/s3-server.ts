// An S3-compatible server on 127.0.0.1, strict about what it is asked: signatures, part sizes, tags, ranges; its content is the test's to see and spoil.
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type S3Keys, signatureProblem } from './s3-signature.ts'

export interface S3Request {
  readonly method: string
  readonly key: string
  readonly query: URLSearchParams
  readonly bytes: number
}

/**
 * What a test lets happen to a request: as it should be, an error of the server, a refusal, no answer at all, an answer lost on its way, cut in half or never sent,
 * or another refusal, without a body where it has no code. */
export type Fate =
  | 'serve'
  | 'fail'
  | 'refuse'
  | 'hang'
  | 'lose'
  | 'cut'
  | 'mute'
  | { readonly status: number; readonly code: string }

export interface S3Object {
  readonly body: Buffer
  readonly modifiedMs: number
}

export interface S3Server {
  readonly url: string
  readonly keys: S3Keys
  readonly bucket: string
  readonly objects: Map<string, S3Object>
  /** Uploads in parts that were begun and neither completed nor ended. */
  readonly uploads: Map<string, Upload>
  readonly requests: S3Request[]
  fate: (request: S3Request) => Fate | Promise<Fate>
  /** The settings of a program that lands here under `prefix`. */
  environment(prefix: string): Record<string, string>
  close(): Promise<void>
}

interface Upload {
  readonly key: string
  readonly beganMs: number
  readonly parts: Map<number, Buffer>
}

interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
}

const minPartBytes = 5 * 1024 * 1024
const etagOf = (body: Buffer): string => `"${createHash('md5').update(body).digest('hex')}"`
const problem = (status: number, code: string): Reply => ({
  status,
  body: `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>${code} says the server</Message></Error>`,
})
const xml = (name: string, inner: string): Reply => ({
  status: 200,
  body: `<?xml version="1.0" encoding="UTF-8"?><${name}>${inner}</${name}>`,
})
const dateOf = (ms: number): string => new Date(ms).toISOString()

export const startS3Server = async (): Promise<S3Server> => {
  const objects = new Map<string, S3Object>()
  const uploads = new Map<string, Upload>()
  const requests: S3Request[] = []
  const keys = { accessKeyId: 'TESTKEYID0000000', secretAccessKey: 'secret-of-the-test-bucket/+=' }
  const bucket = 'landings'
  const stock: Stock = { objects, uploads, next: 1 }
  const handle = async (incoming: IncomingMessage, response: ServerResponse, body: Buffer): Promise<void> => {
    const url = new URL(incoming.url ?? '/', 'http://server')
    const [, name = '', ...words] = url.pathname.split('/')
    const request = {
      method: incoming.method ?? '',
      key: words.map(decodeURIComponent).join('/'),
      query: url.searchParams,
      bytes: body.length,
    }
    requests.push(request)
    const fate = await server.fate(request)
    if (fate === 'hang') return
    if (fate === 'fail') return send(response, problem(500, 'InternalError'))
    if (fate === 'refuse') return send(response, problem(403, 'AccessDenied'))
    if (typeof fate === 'object')
      return send(response, fate.code === '' ? { status: fate.status } : problem(fate.status, fate.code))
    const refused = signatureProblem(incoming, url, body, keys)
    if (refused !== null) return send(response, problem(403, refused))
    if (name !== bucket) return send(response, problem(404, 'NoSuchBucket'))
    const reply = answer(stock, request, incoming, body)
    if (fate === 'mute') return
    if (fate === 'lose') return void response.destroy()
    send(response, reply, fate === 'cut')
  }
  const http = createServer((incoming, response) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => void handle(incoming, response, Buffer.concat(chunks)))
    incoming.on('error', () => undefined)
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const address = http.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const url = `http://127.0.0.1:${address.port}`
  const server: S3Server = {
    url,
    keys,
    bucket,
    objects,
    uploads,
    requests,
    fate: () => 'serve',
    environment: (prefix) => ({
      MILLRACE_LANDING: `s3://${bucket}/${prefix}`,
      AWS_ENDPOINT_URL_S3: url,
      AWS_ACCESS_KEY_ID: keys.accessKeyId,
      AWS_SECRET_ACCESS_KEY: keys.secretAccessKey,
    }),
    close: () =>
      new Promise((resolve) => {
        http.closeAllConnections()
        http.close(() => resolve())
      }),
  }
  return server
}

interface Stock {
  readonly objects: Map<string, S3Object>
  readonly uploads: Map<string, Upload>
  next: number
}

const send = (response: ServerResponse, { status, headers = {}, body = '' }: Reply, cut = false): void => {
  const length = headers['content-length'] ?? String(Buffer.byteLength(body))
  response.writeHead(status, { 'content-type': 'application/xml', ...headers, 'content-length': length })
  if (cut) return void response.write(body.slice(0, body.length / 2), () => response.destroy())
  response.end(body)
}

const answer = (stock: Stock, { method, key, query }: S3Request, { headers }: IncomingMessage, body: Buffer): Reply => {
  const uploadId = query.get('uploadId')
  if (key === '') {
    if (method !== 'GET') return problem(501, 'NotImplemented')
    return query.has('uploads') ? listUploads(stock, query) : listObjects(stock, query)
  }
  if (uploadId !== null) return answerUpload(stock, method, key, uploadId, query, body)
  if (method === 'POST' && query.has('uploads')) {
    const id = `upload-${stock.next++}`
    stock.uploads.set(id, { key, beganMs: Date.now(), parts: new Map() })
    return xml('InitiateMultipartUploadResult', `<Key>${key}</Key><UploadId>${id}</UploadId>`)
  }
  if (method === 'PUT') {
    if (headers['if-none-match'] === '*' && stock.objects.has(key)) return problem(412, 'PreconditionFailed')
    stock.objects.set(key, { body, modifiedMs: Date.now() })
    return { status: 200, headers: { etag: etagOf(body) } }
  }
  if (method === 'DELETE') {
    stock.objects.delete(key)
    return { status: 204 }
  }
  const object = stock.objects.get(key)
  if (object === undefined) return method === 'HEAD' ? { status: 404 } : problem(404, 'NoSuchKey')
  if (method === 'HEAD')
    return { status: 200, headers: { 'content-length': String(object.body.length), etag: etagOf(object.body) } }
  return method === 'GET' ? readObject(object.body, headers.range) : problem(405, 'MethodNotAllowed')
}

const readObject = (body: Buffer, range: string | undefined): Reply => {
  if (range === undefined) return { status: 200, headers: { etag: etagOf(body) }, body }
  const [, first = '', last = ''] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? []
  if (first === '' || Number(first) >= body.length) return problem(416, 'InvalidRange')
  const end = Math.min(Number(last), body.length - 1)
  const headers = { 'content-range': `bytes ${first}-${end}/${body.length}`, etag: etagOf(body) }
  return { status: 206, headers, body: body.subarray(Number(first), end + 1) }
}

const answerUpload = (stock: Stock, method: string, key: string, id: string, query: URLSearchParams, body: Buffer): Reply => {
  const upload = stock.uploads.get(id)
  if (upload === undefined || upload.key !== key) return problem(404, 'NoSuchUpload')
  if (method === 'PUT') {
    upload.parts.set(Number(query.get('partNumber')), body)
    return { status: 200, headers: { etag: etagOf(body) } }
  }
  if (method === 'DELETE') {
    stock.uploads.delete(id)
    return { status: 204 }
  }
  if (method !== 'POST') return problem(405, 'MethodNotAllowed')
  const named = [...body.toString().matchAll(/<Part>(.*?)<\/Part>/g)].map(([, part = '']) => ({
    number: Number(/<PartNumber>(\d+)</.exec(part)?.[1]),
    etag: (/<ETag>(.*?)</.exec(part)?.[1] ?? '').replaceAll('&quot;', '"'),
  }))
  const parts = named.map(({ number }) => upload.parts.get(number) ?? Buffer.alloc(0))
  if (named.some(({ number }, at) => number !== at + 1)) return problem(400, 'InvalidPartOrder')
  if (named.length === 0 || named.some(({ etag }, at) => etag !== etagOf(parts[at] ?? Buffer.alloc(0))))
    return problem(400, 'InvalidPart')
  if (parts.slice(0, -1).some(({ length }) => length < minPartBytes)) return problem(400, 'EntityTooSmall')
  stock.uploads.delete(id)
  stock.objects.set(key, { body: Buffer.concat(parts), modifiedMs: Date.now() })
  return xml('CompleteMultipartUploadResult', `<Key>${key}</Key>`)
}

/** In pages of a thousand, by key and then by id. */
const listUploads = ({ uploads }: Stock, query: URLSearchParams): Reply => {
  const placeOf = (key: string, id: string): string => `${key}\0${id}`
  const after = query.has('key-marker') ? placeOf(query.get('key-marker') ?? '', query.get('upload-id-marker') ?? '') : ''
  const all = [...uploads]
    .map(([id, { key, beganMs }]) => ({ id, key, beganMs, place: placeOf(key, id) }))
    .filter(({ key, place }) => key.startsWith(query.get('prefix') ?? '') && place > after)
    .sort((a, b) => (a.place < b.place ? -1 : 1))
  const page = all.slice(0, 1000)
  const last = page.length < all.length ? page.at(-1) : undefined
  const next =
    last === undefined ? '' : `<NextKeyMarker>${last.key}</NextKeyMarker><NextUploadIdMarker>${last.id}</NextUploadIdMarker>`
  const found = page.map(
    ({ id, key, beganMs }) =>
      `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${dateOf(beganMs)}</Initiated></Upload>`,
  )
  return xml('ListMultipartUploadsResult', `<IsTruncated>${last !== undefined}</IsTruncated>${next}${found.join('')}`)
}

const listObjects = ({ objects }: Stock, query: URLSearchParams): Reply => {
  const [prefix, after] = [query.get('prefix') ?? '', query.get('continuation-token') ?? query.get('start-after') ?? '']
  const all = [...objects].filter(([key]) => key.startsWith(prefix) && key > after).sort(([a], [b]) => (a < b ? -1 : 1))
  const page = all.slice(0, Math.min(Number(query.get('max-keys') ?? 1000), 1000))
  const contents = page.map(
    ([key, { body, modifiedMs }]) =>
      `<Contents><Key>${key}</Key><LastModified>${dateOf(modifiedMs)}</LastModified><Size>${body.length}</Size></Contents>`,
  )
  const more = page.length < all.length
  return xml(
    'ListBucketResult',
    `<IsTruncated>${more}</IsTruncated>${more ? `<NextContinuationToken>${page.at(-1)?.[0] ?? ''}</NextContinuationToken>` : ''}${contents.join('')}`,
  )
}
