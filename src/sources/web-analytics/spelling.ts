// How countries and domains are spelled: in the warehouse, in definitions, and as each endpoint wants them (api-facts A 38).
import { domainToASCII, domainToUnicode } from 'node:url'
import type { Spelling } from '../../core/source-spec.ts'

/** `WW`, `US`: the batch endpoints. */
export const forBatch = (code: string): string => (code.toLowerCase() === 'world' ? 'WW' : code.toUpperCase())

/** A country of an answer, as the warehouse writes it. */
export const internalCountry = (text: string): string => {
  const code = text.trim().toLowerCase()
  if (code === 'ww' || code === 'worldwide') return 'world'
  return code === 'uk' ? 'gb' : code
}

const worldSpellings = ['ww', 'worldwide', 'global', 'all']

const country: Spelling = {
  write: internalCountry,
  problem: (text) => {
    const value = text.toLowerCase()
    if (worldSpellings.includes(value)) return `'${value}' is not a country here; write 'world' for worldwide.`
    if (/^[a-z]{2}$|^world$/.test(value)) return value === 'uk' ? `'uk' is not an ISO code; write 'gb'.` : null
    return `'${value}' is not a country; write a two-letter ISO code such as us, or world.`
  },
}

const domainForm = /^(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z0-9-]{2,63}$/

/** A domain, as the warehouse writes it: lower case, ASCII, without `www.` (as in every definition) and without a dot at the end. */
export const internalDomain = (text: string): string => {
  const value = text.trim().toLowerCase().replace(/\.$/, '')
  const bare = /^www\.[^.]+\./.test(value) ? value.slice(4) : value
  if (!/[^ -~]/.test(bare)) return bare
  // Only if both forms convert into each other: a name that merely looks like another domain is not that domain.
  const ascii = domainToASCII(bare)
  return domainToUnicode(ascii) === bare.normalize('NFC') ? ascii : bare
}

const domain: Spelling = {
  write: internalDomain,
  problem: (text) => {
    const value = text.toLowerCase()
    if (domainForm.test(value) && !value.startsWith('www.')) return null
    const bare = bareDomain(value)
    const fix = bare !== null && bare !== value ? `write '${bare}'.` : 'write a domain such as example.com.'
    return `'${value}' is not a bare domain (no scheme, no www., no path); ${fix}`
  },
}

const bareDomain = (value: string): string | null => {
  // A blank between two values: an address would lose it.
  if (/\s/.test(value)) return null
  const address = value.includes('://') ? value : `http://${value}`
  if (!URL.canParse(address)) return null
  const host = new URL(address).hostname.replace(/^www\./, '').replace(/\.$/, '')
  return domainForm.test(host) ? host : null
}

/** What `normalize: country` and `normalize: domain` mean in fields, dimensions and definitions of this service. */
export const spellings: Readonly<Record<string, Spelling>> = { country, domain }
