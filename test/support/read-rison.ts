// Reads rison, the notation of Superset's parameter `q`; written from its description, apart from what the program writes with.

/** Throws where the text is not rison. */
export const readRison = (text: string): unknown => {
  let at = 0
  const expect = (wanted: string): void => {
    if (text[at] !== wanted) throw new Error(`rison: expected ${wanted} at ${at} of ${text}`)
    at += 1
  }
  const list = <T>(end: string, item: () => T): T[] => {
    const items: T[] = []
    while (text[at] !== end) {
      if (items.length > 0) expect(',')
      items.push(item())
    }
    at += 1
    return items
  }
  const quoted = (): string => {
    let out = ''
    while (text[at] !== "'") {
      if (at >= text.length) throw new Error(`rison: no end of text in ${text}`)
      if (text[at] === '!') at += 1
      out += text[at]
      at += 1
    }
    at += 1
    return out
  }
  const word = (): string => {
    const [found = ''] = /^[^\s'!:(),*@$]+/.exec(text.slice(at)) ?? []
    if (found === '') throw new Error(`rison: expected a word at ${at} of ${text}`)
    at += found.length
    return found
  }
  const value = (): unknown => {
    const first = text[at]
    if (first === "'") {
      at += 1
      return quoted()
    }
    if (first === '(') {
      at += 1
      return Object.fromEntries(
        list(')', () => {
          const key = word()
          expect(':')
          return [key, value()] as const
        }),
      )
    }
    if (first === '!') {
      const second = text[at + 1]
      at += 2
      if (second === '(') return list(')', value)
      if (second === 't' || second === 'f') return second === 't'
      if (second === 'n') return null
      throw new Error(`rison: !${second} means nothing in ${text}`)
    }
    const plain = word()
    return /^-?\d+(\.\d+)?$/.test(plain) ? Number(plain) : plain
  }
  const read = value()
  if (at !== text.length) throw new Error(`rison: more after the end, at ${at} of ${text}`)
  return read
}
