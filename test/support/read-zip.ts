// A ZIP archive of stored files, read by its directory as every unzipper does, each file's checksum compared.
import { crc32 } from 'node:zlib'

/** Text by path. Throws where the archive is broken. */
export const readStoredZip = (archive: Buffer): ReadonlyMap<string, string> => {
  const end = archive.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'))
  if (end < 0) throw new Error('Not a ZIP file')
  const files = new Map<string, string>()
  let at = archive.readUInt32LE(end + 16)
  for (let left = archive.readUInt16LE(end + 10); left > 0; left -= 1) {
    if (archive.toString('latin1', at, at + 4) !== 'PK\x01\x02') throw new Error(`no entry of the directory at ${at}`)
    const [method, crc, size] = [archive.readUInt16LE(at + 10), archive.readUInt32LE(at + 16), archive.readUInt32LE(at + 24)]
    const [nameLength, extra, comment] = [28, 30, 32].map((offset) => archive.readUInt16LE(at + offset))
    const path = archive.toString('utf8', at + 46, at + 46 + (nameLength ?? 0))
    const local = archive.readUInt32LE(at + 42)
    const start = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28)
    const content = archive.subarray(start, start + size)
    if (method !== 0 || crc32(content) !== crc || archive.toString('utf8', local + 30, local + 30 + (nameLength ?? 0)) !== path)
      throw new Error(`${path} is broken`)
    files.set(path, content.toString('utf8'))
    at += 46 + (nameLength ?? 0) + (extra ?? 0) + (comment ?? 0)
  }
  return files
}
