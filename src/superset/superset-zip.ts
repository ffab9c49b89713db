// Files as one ZIP archive, stored and not deflated: a bundle is small, and Superset takes nothing else.
import { crc32 } from 'node:zlib'

/** 1 January 1980, the first moment that the format knows: the same files give the same bytes. */
const dosDate = 0x21
/** Names are UTF-8. */
const utf8Flag = 0x800

/** @param files by path; @param root folder that all of them stand in, which Superset expects */
export const zipOf = (files: ReadonlyMap<string, string>, root: string): Uint8Array<ArrayBuffer> => {
  const entries: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const [path, text] of files) {
    const [name, content] = [Buffer.from(`${root}/${path}`), Buffer.from(text)]
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt16LE(utf8Flag, 2)
    common.writeUInt16LE(dosDate, 8)
    common.writeUInt32LE(crc32(content), 10)
    common.writeUInt32LE(content.length, 14)
    common.writeUInt32LE(content.length, 18)
    common.writeUInt16LE(name.length, 22)
    const place = Buffer.alloc(14)
    place.writeUInt32LE(offset, 10)
    directory.push(Buffer.from('PK\x01\x02\x14\x00', 'latin1'), common, place, name)
    const entry = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), common, name, content])
    entries.push(entry)
    offset += entry.length
  }
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 'latin1')
  end.writeUInt16LE(files.size, 8)
  end.writeUInt16LE(files.size, 10)
  end.writeUInt32LE(Buffer.concat(directory).length, 12)
  end.writeUInt32LE(offset, 16)
  return new Uint8Array(Buffer.concat([...entries, ...directory, end]))
}
