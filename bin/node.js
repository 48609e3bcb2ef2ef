// Runs a script of this checkout on the project's own Node, regardless of the Node that npm runs on. `npm ci` installs it as a
// platform package; some versions of npm do not link its command, so this looks for its folder.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const args = process.argv.slice(2)
const isRecent = Number(process.versions.node.split('.')[0]) >= 24

if (isRecent) process.execve(process.execPath, [process.execPath, ...args], process.env)

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const names = [`node-${process.platform}-${process.arch}`, `node-bin-${process.platform}-${process.arch}`]
// The package is in node_modules of the checkout, or next to this package in node_modules.
const ownNode = [join(root, 'node_modules'), join(root, '..')]
  .flatMap((modules) => names.map((name) => join(modules, name, 'bin', 'node')))
  .find((path) => existsSync(path))
if (!ownNode) {
  const program = basename(args[0] || '') === 'egress-proxy.js' ? 'egress-proxy' : 'svc'
  process.stderr.write(
    `${program} needs Node 24 or newer, but this is ${process.version}: run npm ci, or install a newer Node\n`,
  )
  process.exit(1)
}
if (process.execve) process.execve(ownNode, [ownNode, ...args], process.env)
const child = spawn(ownNode, args, { stdio: 'inherit' })
child.on('error', ({ message }) => {
  process.stderr.write(`${ownNode} cannot be started: ${message}; install Node 24 or newer\n`)
  process.exit(1)
})
// A terminal sends Ctrl-C to both processes; a supervisor signals only this one.
process.on('SIGINT', () => {})
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 1)))
