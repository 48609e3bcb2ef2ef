// Runs a script of this checkout on the project's own Node, whatever Node npm was started with. `npm ci` brings it as a
// platform package; some versions of npm do not link its command, so it is looked up by its folder.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const [script = '', ...args] = process.argv.slice(2)

if (Number(process.versions.node.split('.')[0]) >= 24) {
  process.argv.splice(1, 1)
  await import(pathToFileURL(resolve(script)).href)
} else {
  const modules = join(dirname(fileURLToPath(import.meta.url)), '..', 'node_modules')
  const own = [`node-${process.platform}-${process.arch}`, `node-bin-${process.platform}-${process.arch}`]
    .map((name) => join(modules, name, 'bin', 'node'))
    .find((path) => existsSync(path))
  if (!own) {
    process.stderr.write(`svc needs Node 24 or newer, and this is ${process.version}. Run npm ci, or install a newer Node.\n`)
    process.exit(1)
  }
  const { status, signal } = spawnSync(own, [script, ...args], { stdio: 'inherit' })
  process.exit(status ?? (signal === 'SIGINT' ? 130 : 1))
}
