// What a newcomer starts from: the packed program, and a Node.js of some version.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** Names the packed program for tests that share one. */
export const tarballName = 'MILLRACE_TEST_TARBALL'

const repository = resolve(import.meta.dirname, '..', '..')
const quiet = ['--no-audit', '--no-fund', '--loglevel=error']

/** Builds and packs the checkout into `folder`; returns the file. */
export const pack = (folder: string): string => {
  const path = `${join(repository, 'node_modules', '.bin')}:${process.env['PATH'] ?? ''}`
  execFileSync('npm', ['pack', '--pack-destination', folder, ...quiet], {
    cwd: repository,
    env: { ...process.env, PATH: path },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  return join(folder, readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? 'nothing was packed')
}

/** @param version as npm knows it: 22, 24, 22.19.0. Returns the folder with the program. */
export const installNode = (folder: string, version: string): string => {
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), '{"name":"node","private":true,"allowScripts":{"node":true}}')
  execFileSync('npm', ['install', `node@${version}`, ...quiet], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
  return join(folder, 'node_modules', 'node', 'bin')
}
