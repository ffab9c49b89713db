// Which addresses a download link may point at: the service is trusted with a link, not with our network.
import { type LookupAddress, lookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { EtlError } from '../core/errors.ts'
import { redact } from '../core/redact.ts'

const networks = (text: string): BlockList => {
  const list = new BlockList()
  for (const [address = '', prefix] of text.split(' ').map((network) => network.split('/')))
    list.addSubnet(address, Number(prefix), isIP(address) === 6 ? 'ipv6' : 'ipv4')
  return list
}

/** Networks that begin with `::` and 200 carry an IPv4 address inside; `::ffff:a.b.c.d` is looked up as the IPv4 address it is. */
const notPublic = networks(
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.168.0.0/16 198.18.0.0/15 224.0.0.0/4 240.0.0.0/4 ' +
    '::/96 64:ff9b::/96 64:ff9b:1::/48 2001::/32 2002::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8',
)
const loopback = networks('127.0.0.0/8 ::1/128')
/** Networks of an organisation: a service inside one may name its neighbours. */
const inHouse = networks('10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7')

const inList = (list: BlockList, address: string): boolean => list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')

const bare = (hostname: string): string =>
  hostname
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase()

/** A name or address of this machine. */
export const isLoopbackHost = (hostname: string): boolean => {
  const host = bare(hostname)
  return host === 'localhost' || (isIP(host) !== 0 && inList(loopback, host))
}

const isInHouse = (hostname: string): boolean => isIP(bare(hostname)) !== 0 && inList(inHouse, bare(hostname))

const refuse = (what: string): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `The download link points at ${what}. It was not followed; if this is your service, serve its downloads over https from a public address or from its own host.`,
  )

/** Whether a private address may be requested: only if the service's own address is loopback or in-house as well. */
const isNeighbour = (address: string, baseUrl: URL): boolean =>
  (isLoopbackHost(address) && isLoopbackHost(baseUrl.hostname)) || (isInHouse(address) && isInHouse(baseUrl.hostname))

/**
 * The link as an address that may be asked. Throws BAD_RESPONSE naming what is wrong with it, without its query.
 * @param from what a relative link starts from. @param hosts those allowed by setting; null: every public one.
 */
export const allowedDownload = (link: string, from: URL, baseUrl: URL, hosts: readonly string[] | null): URL => {
  const url = URL.parse(link, from.href)
  if (url === null) throw refuse('something that is no address')
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refuse(`a ${url.protocol} address`)
  if (redact(url.href) !== url.href) throw refuse('an address that holds a secret of ours')
  if (url.username !== '' || url.password !== '') throw refuse('an address with a user name in it')
  const host = bare(url.hostname)
  if (host === bare(baseUrl.hostname) && (url.protocol === 'https:' || url.protocol === baseUrl.protocol)) return url
  if (isLoopbackHost(host) && isLoopbackHost(baseUrl.hostname)) return url
  if (url.protocol !== 'https:') throw refuse(`${url.origin} without encryption`)
  if (hosts?.includes(host)) return url
  if (hosts !== null) throw refuse(`${host}, which is none of the hosts set for downloads`)
  const inside = host === 'localhost' || host.endsWith('.localhost') || (isIP(host) !== 0 && inList(notPublic, host))
  if (inside && !isNeighbour(host, baseUrl)) throw refuse(`the private address ${host}`)
  return url
}

/** DNS for downloads: an answer inside our own network is refused at the moment of connecting, whatever it was before. */
export const guardedLookup =
  (baseUrl: URL, allowedHosts: readonly string[] = []): LookupFunction =>
  (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
      if (error !== null) return callback(error, [])
      const host = bare(hostname)
      const trusted = host === bare(baseUrl.hostname) || allowedHosts.includes(host)
      const inside = addresses.find(({ address }) => inList(notPublic, address) && !isNeighbour(address, baseUrl))
      if (!trusted && inside !== undefined)
        return callback(refuse(`${hostname}, which is the private address ${inside.address}`), [])
      const [first] = addresses
      if (options.all === true || first === undefined) return callback(null, addresses)
      callback(null, first.address, first.family)
    })
  }
