#!/usr/bin/env node
// Starts the command line, on the Node.js that started this; a checkout brings one of its own, for machines with an older one.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import * as nodeModule from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const compiled = join(root, 'dist', 'src', 'cli', 'main.js')
const main = existsSync(join(root, 'src')) ? join(root, 'src', 'cli', 'main.ts') : compiled
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
/** As `engines` in package.json says; from it on Node.js also runs TypeScript, which migrations and sources of one's own are. */
const able = major > 22 || (major === 22 && minor >= 18)

// The first process of a container ignores a signal until somebody listens; commands listen once they are loaded.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.listenerCount(signal) > 1 || process.exit(130))

// Node.js 22 and 24 warn of node:sqlite, of which the lock of the embedded server is all we use.
const { emitWarning } = process
process.emitWarning = (warning, ...rest) => {
  if (!/^SQLite is an experimental feature/.test(String(warning))) emitWarning.call(process, warning, ...rest)
}

if (able) {
  nodeModule.enableCompileCache?.()
  // A launcher that is killed closes the channel; the command must not outlive it unseen.
  if (process.env.MILLRACE_LAUNCHED === '1') process.once('disconnect', () => process.exit(130))
  const { main: start } = await import(main)
  await start(process.argv.slice(2))
} else {
  relaunch()
}

function relaunch() {
  const node = bundledNode()
  if (node === null || process.env.MILLRACE_LAUNCHED === '1') {
    const remedy = main.endsWith('.ts') ? 'run `npm ci`, which brings one' : 'install a newer one from https://nodejs.org'
    process.stderr.write(`millrace: this is Node.js ${process.versions.node}, and Millrace needs 22.18 or newer; ${remedy}.\n`)
    process.exit(2)
  }
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, MILLRACE_LAUNCHED: '1' },
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
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
