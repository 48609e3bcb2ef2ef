// Commands that people are shown, in messages and on pages of the dashboard, as they can be typed where svc was started.
import { realpathSync } from 'node:fs'
import { delimiter, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { dataDirVariable, dataRoot } from '../../core/layout.ts'
import type { OutputStream } from '../../lib/command-line/print.ts'
import { readEnvironment } from '../../lib/environment.ts'
import { lazy } from '../../lib/lazy.ts'
import type { SettingSource } from '../../lib/settings.ts'
import { shellQuote } from '../../lib/text/shell-quote.ts'

/** How svc is typed. */
export interface TypedProgram {
  readonly program: string
  /** After `sudo`, which keeps neither PATH nor variables. */
  readonly asRoot: string
}

export type CommandWriter = (text: string) => string

const PLAIN: TypedProgram = { program: 'svc', asRoot: 'svc' }

/** Returns a function that replaces `svc` before the name of a command. Texts in the sources say `svc`. */
export function commandWriter(names: readonly string[], typed = (): TypedProgram => PLAIN): CommandWriter {
  const command = new RegExp(`(?<![\\w/.-]|npx )(sudo (?:-u \\S+ )?)?svc (?=(?:${names.join('|')})(?![\\w-]))`, 'g')
  return (text) =>
    text.replace(command, (_, sudo: string | undefined) => {
      const { program, asRoot } = typed()
      return sudo === undefined ? `${program} ` : `${sudo}${asRoot} `
    })
}

export function writeCommandsTo(stream: OutputStream, showCommands: CommandWriter): OutputStream {
  return { ...stream, write: (text) => stream.write(showCommands(text)) }
}

/** The path holds for `src/cli/output` and `dist/cli/output` alike. */
export const PACKAGE_ROOT = fileURLToPath(new URL('../../..', import.meta.url))

export function isInstalled(): boolean {
  return PACKAGE_ROOT.includes(`${sep}node_modules${sep}`)
}

/** How this svc was started: `svc` where the PATH has it, `npx svc` below its checkout or project, else its file. */
const startedProgram = lazy((): TypedProgram => {
  const file = join(PACKAGE_ROOT, 'bin/svc.js')
  if (isOnPath(file)) return { program: 'svc', asRoot: 'svc' }
  const [project = PACKAGE_ROOT] = PACKAGE_ROOT.split(`${sep}node_modules${sep}`)
  const asRoot = shellQuote(file)
  return { program: isBelow(project, process.cwd()) ? 'npx svc' : asRoot, asRoot }
})

/** npx and npm scripts put `node_modules/.bin` on the PATH of the programs that they start, but not on that of the shell. */
function isOnPath(file: string): boolean {
  const directories = (readEnvironment('PATH') ?? '').split(delimiter)
  return directories.some((directory) => {
    if (directory === '' || directory.endsWith(join('node_modules', '.bin'))) return false
    try {
      return realpathSync(join(directory, 'svc')) === realpathSync(file)
    } catch {
      return false
    }
  })
}

function isBelow(root: string, path: string): boolean {
  const [first] = relative(root, path).split(sep)
  return first !== '..'
}

/** In the shell that has started this process. */
export function programHere(environment: SettingSource): TypedProgram {
  const { get } = environment
  const root = dataRoot({ SVC_DATA_DIR: get('SVC_DATA_DIR'), PREFIX: get('PREFIX') })
  return { ...startedProgram(), asRoot: `${dataDirVariable(root)}${startedProgram().asRoot}` }
}

/** In any shell, for an instance in this directory: that of a person who reads a page, or who got a message in a chat. */
export function programAnywhere(root: string): TypedProgram {
  const { program, asRoot } = startedProgram()
  return { program: `${dataDirVariable(root)}${program}`, asRoot: `${dataDirVariable(root)}${asRoot}` }
}
