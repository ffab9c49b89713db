// One value of a for-each list: its one spelling, or what is wrong with it and how to write it.
import type { DimensionSpec } from '../core/source-spec.ts'

const longestValue = 253
const domainForm = /^(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z0-9-]{2,63}$/

export type CheckedValue = { readonly value: string } | { readonly message: string }

/** Normalizes and checks `written`. The message says what was found, what is expected and how to write it. */
export const checkValue = (written: string, spec: DimensionSpec): CheckedValue => {
  const text = written.trim()
  if (text === '') return { message: 'an empty value; write one or remove the line.' }
  if (text.length > longestValue) return { message: `a value of ${text.length} characters; at most ${longestValue} are allowed.` }
  const value = spec.normalize === undefined ? text : text.toLowerCase()
  const wrong = spec.normalize === 'domain' ? domainProblem(value) : spec.normalize === 'country' ? countryProblem(value) : null
  if (wrong !== null) return { message: wrong }
  if (spec.pattern !== undefined && !new RegExp(spec.pattern.source, spec.pattern.flags.replace(/[gy]/g, '')).test(value)) {
    return { message: `'${text}' does not fit; expected ${spec.expected ?? `text that matches ${spec.pattern.source}`}.` }
  }
  return { value }
}

const domainProblem = (value: string): string | null => {
  if (domainForm.test(value) && !value.startsWith('www.')) return null
  const bare = bareDomain(value)
  const fix = bare !== null && bare !== value ? `write '${bare}'.` : 'write a domain such as example.com.'
  return `'${value}' is not a bare domain (no scheme, no www., no path); ${fix}`
}

const bareDomain = (value: string): string | null => {
  const address = value.includes('://') ? value : `http://${value}`
  if (!URL.canParse(address)) return null
  const host = new URL(address).hostname.replace(/^www\./, '').replace(/\.$/, '')
  return domainForm.test(host) ? host : null
}

const worldSpellings = ['ww', 'worldwide', 'global', 'all']

const countryProblem = (value: string): string | null => {
  if (worldSpellings.includes(value)) return `'${value}' is not a country here; write 'world' for worldwide.`
  if (/^[a-z]{2}$|^world$/.test(value)) return value === 'uk' ? `'uk' is not an ISO code; write 'gb'.` : null
  return `'${value}' is not a country; write a two-letter ISO code such as us, or world.`
}
