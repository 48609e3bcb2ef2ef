// The launcher of both programs, in JavaScript that an old Node can parse. Prints help and version itself and loads the
// program only for other commands.
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import module from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

// node:ffi and stripTypeScriptTypes print a warning on first use, in the middle of the log.
const NO_WARNINGS = '--disable-warning=ExperimentalWarning'
// V8 reads the size of its young generation only at startup; the default keeps 16 MiB twice.
const SMALL_HEAP = '--max-semi-space-size=4'
/** Node flags of long-running commands and of those that use node:ffi. Short commands need none and start faster without a restart. */
const FLAGS = {
  'svc backup': [NO_WARNINGS],
  'svc serve': [SMALL_HEAP, NO_WARNINGS],
  'svc start': [SMALL_HEAP, NO_WARNINGS],
  'egress-proxy proxy': [NO_WARNINGS],
}

const resolvePath = (path) => fileURLToPath(new URL(path, import.meta.url))

/**
 * `name` is the command and its script in this folder, `help` its help page in this folder, `entry` the module below src or
 * dist that runs it. `printsVersion` if there is no `version` command.
 */
export async function start({ name, help, entry, printsVersion = false }) {
  const args = process.argv.slice(2)
  const [first] = args
  if (first === undefined || (args.length === 1 && ['help', '--help', '-h'].includes(first))) {
    const out = first === undefined ? process.stderr : process.stdout
    out.on('error', () => {})
    out.write(readFileSync(resolvePath(help)))
    process.exitCode = first === undefined ? 1 : 0
  } else if (first === '--version' && printsVersion) {
    process.stdout.write(`${name} ${JSON.parse(readFileSync(resolvePath('../package.json'), 'utf8')).version}\n`)
  } else if (Number(process.versions.node.split('.')[0]) < 24) {
    // Run on the Node that npm installed for this project, or print an error.
    process.argv.splice(2, 0, resolvePath(`${name}.js`))
    await import('./node.js')
  } else {
    const flags = FLAGS[`${name} ${first}`]
    if (flags) restartWith(flags, resolvePath(`${name}.js`), args)
    enableCompileCache(name)
    // A checkout may also have a dist/, of any age; an installed package has no sources.
    const isCheckout = existsSync(resolvePath(`../src/${entry}.ts`))
    const load = (path) => import(isCheckout ? `../src/${path}.ts` : `../dist/${path}.js`)
    if (flags && name === 'svc') {
      // The parent of a served instance loads nothing else.
      const { isSupervised, superviseProgram } = await load('supervisor/program')
      if (isSupervised(args)) process.exit(await superviseProgram())
    }
    const { runProcess } = await load(entry)
    await runProcess()
  }
}

/** Replaces this process with one that has the missing flags, unless it has an IPC channel, which execve would lose. */
function restartWith(flags, script, args) {
  const nameOf = (flag) => flag.split('=')[0]
  const missing = flags.filter((flag) => !process.execArgv.some((given) => nameOf(given) === nameOf(flag)))
  if (missing.length === 0 || !process.execve || process.channel) return
  const argv = [process.execPath, ...missing, ...process.execArgv, script, ...args]
  process.execve(process.execPath, argv, process.env)
}

/** Enables the compile cache in a folder that only this user can write, since cached code runs unchecked. */
function enableCompileCache(name) {
  try {
    const folder = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), name, 'compiled')
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { uid, mode } = statSync(folder)
    if (uid !== process.getuid() || (mode & 0o077) !== 0) return
    module.enableCompileCache(folder)
    // Inherited by threads and child processes of svc, but not by commands that `egress-proxy run` starts.
    if (name === 'svc') process.env.NODE_COMPILE_CACHE = folder
  } catch {
    // Without a home folder there is no cache, and programs start more slowly.
  }
}
