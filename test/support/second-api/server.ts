// A second API, locally: a shop's prices behind a token in a header of its own, page by page with a cursor.
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'

export interface ShopService {
  readonly url: string
  /** Every request, in order. */
  readonly requests: { readonly path: string; readonly query: Record<string, string>; readonly headers: IncomingHttpHeaders }[]
  close(): Promise<void>
}

const shops = ['north', 'south']
const perPage = 40

/** @param tokens those it knows @param products of each shop and month */
export const startShopService = async (tokens: readonly string[], products: number): Promise<ShopService> => {
  const requests: ShopService['requests'] = []
  const send = (response: ServerResponse, status: number, body: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(body))
  }
  const server = createServer(({ url, headers }, response) => {
    const { pathname, searchParams } = new URL(url ?? '/', 'http://shop')
    const query = Object.fromEntries(searchParams)
    requests.push({ path: pathname, query, headers })
    if (!tokens.includes(String(headers['x-shop-token']))) return send(response, 401, { problem: 'who are you?' })
    if (pathname === '/v1/shops') return send(response, 200, shops)
    if (pathname !== '/v1/prices') return send(response, 404, { problem: 'no such page' })
    const start = Number(Buffer.from(query['cursor'] ?? '', 'base64url').toString() || 0)
    const numbers = Array.from({ length: products }, (_, index) => index).slice(start, start + perPage)
    const items = numbers.map((index) => ({ product: `${query['shop']} ${index}`, price: index + 0.5 }))
    const end = start + perPage
    const next = end < products ? Buffer.from(String(end)).toString('base64url') : null
    send(response, 200, { items, next, total: products })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return {
    url: `http://127.0.0.1:${address.port}`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}
