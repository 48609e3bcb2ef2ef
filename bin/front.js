// What stands in front of a program, in JavaScript that an old Node can read: help and version at once, everything else is
// loaded after it.
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import module from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))

/**
 * `name` is the command, and its script beside this file; `help` the file with its page of help, beside this file too;
 * `entry` the module that runs it, below dist or src; `misuse` the exit code where nothing is asked;
 * `printsVersion` where the program has no command that does.
 */
export async function start({ name, help, entry, misuse, printsVersion = false }) {
  const args = process.argv.slice(2)
  const [first] = args
  if (first === undefined || (args.length === 1 && ['help', '--help', '-h'].includes(first))) {
    const out = first === undefined ? process.stderr : process.stdout
    out.on('error', () => {})
    out.write(readFileSync(here(help)))
    process.exitCode = first === undefined ? misuse : 0
  } else if (first === '--version' && printsVersion) {
    process.stdout.write(`${name} ${JSON.parse(readFileSync(here('../package.json'), 'utf8')).version}\n`)
  } else if (Number(process.versions.node.split('.')[0]) < 24) {
    // The project's own Node, when npm has brought it; else a sentence.
    process.argv.splice(2, 0, here(`${name}.js`))
    await import('./node.js')
  } else {
    keepCompiled(name)
    const built = existsSync(here(`../dist/${entry}.js`))
    const { runProcess } = await import(built ? `../dist/${entry}.js` : `../src/${entry}.ts`)
    await runProcess()
  }
}

/** Compiled code is kept where nobody else can put some: it is run without being looked at. */
function keepCompiled(name) {
  try {
    const folder = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), name, 'compiled')
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { uid, mode } = statSync(folder)
    if (uid === process.getuid() && (mode & 0o077) === 0) module.enableCompileCache(folder)
  } catch {
    // Without a home there is no cache, and all works as well, only later.
  }
}
