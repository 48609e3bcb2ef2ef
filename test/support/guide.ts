// Runs the commands of a guide in one shell, in order: all code blocks with the language `sh`, and the lines of `console` blocks
// that start with `$ `. Saves each block after "Save this as `path`:" in its place.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { InstalledPackage } from './installed-package.ts'
import { inNewNetwork } from './namespace.ts'
import { type CleanupScope, tempDir } from './temp.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const COPIED = ['bin', 'src', 'packages', 'products', 'package.json', 'package-lock.json']
/** Commands that run until they are stopped. */
const SERVER = /^(?:npx )?svc (?:serve|start)\b|^npm ci && npm start$|^egress-proxy proxy serve/
/** Commands that follow output endlessly. */
const ENDLESS = /--follow|events"/

/** Extracts the commands of a guide; a trailing backslash continues a line. */
export function commandsOf(markdown: string): string[] {
  const blocks = /(?:Save\s+this\s+as\s+`([^`]+)`:\s+)?^```(\w*)\n(.*?)^```$/gms
  return [...markdown.matchAll(blocks)].flatMap(([, path, language, block = '']) => {
    if (path !== undefined) return [saveCommand(path, block)]
    if (language !== 'sh' && language !== 'console') return []
    const lines = block.replaceAll('\\\n', '\\\0').split('\n')
    const typed = language === 'sh' ? lines : lines.filter((line) => line.startsWith('$ ')).map((line) => line.slice(2))
    return typed
      .map((line) => line.replaceAll('\0', '\n'))
      .filter((line) => line.trim() !== '' && !line.startsWith('#'))
  })
}

function saveCommand(path: string, content: string): string {
  return `mkdir -p "$(dirname ${quoted(path)})" && cat > ${quoted(path)} << 'END_OF_FILE'\n${content}END_OF_FILE`
}

/** The files that a guide has its reader save, by their paths. */
export function savedFilesOf(markdown: string): ReadonlyMap<string, string> {
  const blocks = /Save\s+this\s+as\s+`([^`]+)`:\s+^```\w*\n(.*?)^```$/gms
  return new Map([...markdown.matchAll(blocks)].map(([, path = '', content = '']) => [path, content]))
}

/** The part below a heading, up to the next heading of the same or a higher level. */
export function sectionOf(markdown: string, heading: string): string {
  const start = markdown.indexOf(`\n${heading}\n`) + 1
  if (start === 0) throw new Error(`there is no heading ${heading}`)
  const level = heading.indexOf(' ')
  const end = new RegExp(`^#{1,${level}} `, 'm').exec(markdown.slice(start + heading.length))
  return end ? markdown.slice(start, start + heading.length + end.index) : markdown.slice(start)
}

/** Extracts the code blocks with settings for `.env`. */
export function settingsOf(markdown: string): string[] {
  return [...markdown.matchAll(/^```dotenv\n(.*?)^```$/gms)].map(([, block = '']) => block)
}

export interface GuideOptions {
  /** Commands that run before the guide. */
  readonly before?: readonly string[]
  /** Commands that check what the guide has done. */
  readonly after?: readonly string[]
  /** Commands that are skipped. */
  readonly leftOut: (command: string) => boolean
  /** Heading of a section that is skipped. */
  readonly leftOutSection?: string
  /** Files of the working directory. */
  readonly files?: Readonly<Record<string, string>>
  /** Runs the commands of this package, as the user who installed it and in a directory without the checkout. */
  readonly installed?: InstalledPackage
}

/**
 * Runs the commands in a copy of the checkout and in a network of its own, so that the ports of the guide are free. `npm ci`
 * does nothing, because the modules exist. curl fails if the server refuses.
 */
export async function runGuide(t: CleanupScope, path: string, options: GuideOptions): Promise<void> {
  const { installed } = options
  const place = tempDir(t)
  const directory = join(place, 'svc')
  mkdirSync(directory)
  if (!installed) copyCheckout(directory)
  for (const [name, content] of Object.entries(options.files ?? {})) writeFileSync(join(directory, name), content)
  const programs = [writePrograms(place, installed ? undefined : directory), ...(installed ? [installed.bin] : [])]
  const { uid, gid } = installed?.identity ?? {}
  if (uid !== undefined) execFileSync('chown', ['-R', `${uid}:${gid}`, place])
  const markdown = readFileSync(join(ROOT, path), 'utf8')
  const { leftOutSection } = options
  const commands = commandsOf(leftOutSection ? markdown.replace(sectionOf(markdown, leftOutSection), '') : markdown)
  const guided = commands.filter((command) => !options.leftOut(command))
  const ran = [...(options.before ?? []), ...guided, ...(options.after ?? [])]
  const script = ['set -aeuo pipefail', 'set -m', STOP, 'trap end EXIT', ...ran.map(stepOf)].join('\n')
  const [program = '', ...args] = inNewNetwork(['bash', '-c', script], installed?.identity)
  const child = spawn(program, args, {
    cwd: directory,
    env: {
      ...process.env,
      ...installed?.environment,
      PATH: [...programs, process.env.PATH].join(delimiter),
      NO_COLOR: '1',
      HOME: place,
      // The directory of `npm install -g`.
      npm_config_prefix: join(place, 'prefix'),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  if (child.exitCode !== 0)
    throw new Error(`a command of ${path} fails:\n${output.slice(-2000)}\n${errors.slice(-2000)}`)
}

const STOP = `server= others=()
stop() { if [ -n "$server" ]; then kill -- "-$server"; wait "$server" || true; server=; fi; }
end() { stop; for other in "\${others[@]}"; do kill -- "-$other"; done; }`

function stepOf(command: string): string {
  const shown = `printf '%s\\n' ${quoted(`$ ${command}`)}`
  if (SERVER.test(command)) {
    // In another terminal; the previous command is stopped first.
    const wait =
      'touch server.log; until grep -qE "^(ready|Ctrl-C)" server.log; do kill -0 $server || { cat server.log; exit 1; }; sleep 0.1; done'
    return `${shown}\nstop\n{ ${command.replace('npm ci && ', '')}\n} > server.log 2>&1 & server=$!\n${wait}`
  }
  if (ENDLESS.test(command)) return `${shown}\n{ timeout --foreground 2 bash -c ${quoted(command)}; } || [ $? -eq 124 ]`
  return `${shown}\n${command}`
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

function copyCheckout(to: string): void {
  for (const name of COPIED) cpSync(join(ROOT, name), join(to, name), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(to, 'node_modules'))
}

/** Returns a directory for the PATH. */
function writePrograms(place: string, checkout: string | undefined): string {
  const folder = join(place, 'programs')
  mkdirSync(folder)
  const program = (name: string, script: string): void => {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`)
    chmodSync(join(folder, name), 0o755)
  }
  program('curl', 'exec /usr/bin/curl --fail-with-body "$@"')
  if (checkout)
    for (const name of ['svc', 'egress-proxy'])
      program(name, `exec ${process.execPath} ${checkout}/bin/${name}.js "$@"`)
  return folder
}
