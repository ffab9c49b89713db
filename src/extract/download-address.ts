// Which addresses a download link may point at: the service is trusted with a link, not with our network.
import { type LookupAddress, lookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { EtlError } from '../core/errors.ts'
import { redact } from '../core/redact.ts'

const notPublic = new BlockList()
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const) {
  notPublic.addSubnet(network, prefix, 'ipv4')
}
for (const [network, prefix] of [
  ['::', 128],
  ['::1', 128],
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  // Addresses that carry an IPv4 address inside.
  ['2001::', 32],
  ['2002::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
] as const) {
  notPublic.addSubnet(network, prefix, 'ipv6')
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** Networks of an organisation: a service inside one may name its neighbours. */
const inHouse = new BlockList()
inHouse.addSubnet('10.0.0.0', 8, 'ipv4')
inHouse.addSubnet('172.16.0.0', 12, 'ipv4')
inHouse.addSubnet('192.168.0.0', 16, 'ipv4')
inHouse.addSubnet('fc00::', 7, 'ipv6')

const inList = (list: BlockList, address: string): boolean => {
  const inside = isIP(address) === 6 ? heldIpv4(address) : null
  if (inside !== null) return list.check(inside, 'ipv4')
  return list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

/** `::ffff:a.b.c.d` and `::a.b.c.d` (RFC 4291 2.5.5), in whatever spelling, are the IPv4 address they hold; null: it holds none. */
const heldIpv4 = (address: string): string | null => {
  // The address parser writes every IPv6 address in one way, with hexadecimal groups.
  const written = URL.parse(`http://[${address}]`)?.hostname.slice(1, -1) ?? address
  const [, high, low] = /^::(?:ffff:)?([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(written) ?? []
  if (high === undefined || low === undefined) return null
  const [first, second] = [Number.parseInt(high, 16), Number.parseInt(low, 16)]
  return [first >> 8, first & 255, second >> 8, second & 255].join('.')
}

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

/** Whether an address inside some private network may be asked: only one as near as the service itself. */
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
