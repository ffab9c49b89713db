// Addresses that people set: which parts they may have, and which belong to this machine.

/** A name or an address of this machine. */
export const isLoopback = (host: string): boolean => /^(localhost|127\.\d+\.\d+\.\d+|\[::1\]|::1)$/i.test(host)

/** Whether what is sent there cannot be read on the way: https, or http to this machine. */
export const isEncryptedOrLocal = ({ protocol, hostname }: URL): boolean =>
  protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))

/** An http or https address of host and path alone; null: the text is none. */
export const plainAddress = (text: string): URL | null => {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && !(url.username || url.password || url.search || url.hash) ? url : null
}
