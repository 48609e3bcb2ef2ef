// The launcher of both programs, in JavaScript that an old Node can read: prints help and version at once and loads the rest
// only for other commands.
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import module from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

// node:ffi and stripTypeScriptTypes print a warning at first use, between the lines of the log.
const QUIET = '--disable-warning=ExperimentalWarning'
// V8 reads the size of its young generation only at its start, and would keep 16 MiB twice.
const SMALL = '--max-semi-space-size=4'
/** Flags of Node for commands that run for long. Short commands need none of them and start faster without. */
const FLAGS = { 'svc serve': [SMALL, QUIET], 'svc start': [SMALL, QUIET], 'egress-proxy proxy': [QUIET] }

const here = (path) => fileURLToPath(new URL(path, import.meta.url))

/**
 * `name` is the command and the script next to this file, `help` its help page, also next to this file; `entry` is the module
 * below dist or src that runs it, `misuse` the exit code without arguments. `printsVersion` if it has no `version` command.
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
    // Run on the Node that npm installed for this project, or print an error.
    process.argv.splice(2, 0, here(`${name}.js`))
    await import('./node.js')
  } else {
    const flags = FLAGS[`${name} ${first}`]
    if (flags) restartWith(flags, here(`${name}.js`), args)
    keepCompiled(name)
    const built = existsSync(here(`../dist/${entry}.js`))
    const { runProcess } = await import(built ? `../dist/${entry}.js` : `../src/${entry}.ts`)
    await runProcess()
  }
}

/** Replaces this process by one with the flags it lacks, but not under an IPC channel, which the new program would not have. */
function restartWith(flags, script, args) {
  const nameOf = (flag) => flag.split('=')[0]
  const missing = flags.filter((flag) => !process.execArgv.some((given) => nameOf(given) === nameOf(flag)))
  if (missing.length === 0 || !process.execve || process.channel) return
  const words = [process.execPath, ...missing, ...process.execArgv, script, ...args]
  process.execve(process.execPath, words, process.env)
}

/** Enables the compile cache in a folder that only this user can write: cached code runs unchecked. */
function keepCompiled(name) {
  try {
    const folder = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), name, 'compiled')
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { uid, mode } = statSync(folder)
    if (uid !== process.getuid() || (mode & 0o077) !== 0) return
    module.enableCompileCache(folder)
    // Threads and child processes of svc use it too. Commands that `egress-proxy run` starts must not.
    if (name === 'svc') process.env.NODE_COMPILE_CACHE = folder
  } catch {
    // Without a home folder there is no cache, only a slower start.
  }
}
