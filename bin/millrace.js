#!/usr/bin/env node
// Starts the command line, on the Node.js that started this; a checkout brings one of its own, for machines with an older one.
import { spawn } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, readFileSync } from 'node:fs'
import * as nodeModule from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const compiled = join(root, 'dist', 'src', 'cli', 'main.js')
const main = existsSync(join(root, 'src')) ? join(root, 'src', 'cli', 'main.ts') : compiled
/** What the libraries ask for. It also runs TypeScript, which migrations and sources of one's own are. */
const oldest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).engines.node.replace('>=', '')
const [major, minor] = process.versions.node.split('.').map(Number)
const [oldestMajor, oldestMinor] = oldest.split('.').map(Number)
const able = major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)

// The first process of a container ignores a signal until somebody listens; commands listen once they are loaded.
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
for (const signal of signals) process.on(signal, () => process.listenerCount(signal) > 1 || process.exit(130))

// Node.js 22 and 24 warn of node:sqlite, of which the lock of the embedded server is all we use.
const { emitWarning } = process
process.emitWarning = (warning, ...rest) => {
  if (!/^SQLite is an experimental feature/.test(String(warning))) emitWarning.call(process, warning, ...rest)
}

const isLaunched = process.env.MILLRACE_LAUNCHED === '1'
// No setting of the command, which would say that it is unread.
delete process.env.MILLRACE_LAUNCHED

if (able) {
  enableCompileCache()
  // A launcher that is killed closes the channel; the command must not outlive it unseen.
  if (isLaunched) process.once('disconnect', () => process.exit(130))
  const { main: start } = await import(main)
  await start(process.argv.slice(2))
} else {
  relaunch()
}

/** Node.js would keep compiled code where every login of the machine may write, and run what it finds there. */
function enableCompileCache() {
  const uid = process.getuid?.()
  if (process.env.NODE_COMPILE_CACHE || uid === undefined) return nodeModule.enableCompileCache?.()
  const folder = join(tmpdir(), `millrace-${uid}`)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const found = lstatSync(folder)
    if (found.isDirectory() && found.uid === uid && (found.mode & 0o077) === 0) nodeModule.enableCompileCache?.(folder)
  } catch {
    // Without a place of one's own every start compiles.
  }
}

function relaunch() {
  const node = bundledNode()
  if (node === null || isLaunched) {
    const remedy = main.endsWith('.ts') ? 'run `npm ci`, which brings one' : 'install a newer one from https://nodejs.org'
    process.stderr.write(
      `millrace: this is Node.js ${process.versions.node}, and Millrace needs ${oldest} or newer; ${remedy}.\n`,
    )
    process.exit(2)
  }
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, MILLRACE_LAUNCHED: '1' },
  })
  for (const signal of signals) process.on(signal, () => child.kill(signal))
  child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 1)))
}

/** The package of this platform, pinned by the lock file of a checkout (tools/node) with its checksum; the others are not installed. */
function bundledNode() {
  const platform = process.platform === 'win32' ? 'win' : process.platform
  const prefix = platform === 'darwin' && process.arch === 'arm64' ? 'node-bin' : 'node'
  try {
    const name = `${prefix}-${platform}-${process.arch}/package.json`
    const folder = dirname(nodeModule.createRequire(import.meta.url).resolve(name))
    const file = join(folder, 'bin', platform === 'win' ? 'node.exe' : 'node')
    return existsSync(file) ? file : null
  } catch {
    return null
  }
}
