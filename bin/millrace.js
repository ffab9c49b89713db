#!/usr/bin/env node
// Finds a Node.js that can run Millrace (a package of this platform brings one) and starts the command line with it.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import * as nodeModule from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const compiled = join(root, 'dist', 'src', 'cli', 'main.js')
const main = existsSync(join(root, 'src')) ? join(root, 'src', 'cli', 'main.ts') : compiled
const major = Number(process.versions.node.split('.')[0])
const able = main.endsWith('.ts') ? Boolean(process.features.typescript) : major >= 24

// The first process of a container ignores a signal until somebody listens; commands listen once they are loaded.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.listenerCount(signal) > 1 || process.exit(130))

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
    process.stderr.write(
      `millrace: Node.js ${process.versions.node} is too old and the bundled one is missing; run \`npm ci\` again.\n`,
    )
    process.exit(2)
  }
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, MILLRACE_LAUNCHED: '1' },
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 1)))
}

/** The package of this platform, pinned by the lock file with its checksum; the others are not installed. */
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
