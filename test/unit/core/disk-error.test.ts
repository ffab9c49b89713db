// A folder without rights or a full disk is no defect of the program.
import { expect, test } from 'vitest'
import { diskError } from '../../../src/core/disk-error.ts'

test('what the file system refuses is named with its path; other errors are left as they are', () => {
  const message = "EACCES: permission denied, mkdir '/srv/w'"
  const refused = Object.assign(new Error(message), { code: 'EACCES', syscall: 'mkdir', path: '/srv/w' })
  expect(diskError(refused)).toMatchObject({ code: 'DISK', message: expect.stringContaining("mkdir '/srv/w'. No permission") })
  const other = new TypeError('x is undefined')
  expect(diskError(other)).toBe(other)
  // What a write to a full disk throws.
  const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
  expect(diskError(full)).toMatchObject({ code: 'DISK', message: expect.stringContaining('The disk is full: free space') })
})
