// Builds the browser scripts without a bundler: strips imports and exports from the modules and concatenates them. Therefore no
// two of them may declare the same top-level name.
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { extname, join } from 'node:path'

/** Each after the modules that it needs when it is evaluated. */
const CHAT = [
  'texts/language',
  '../lib/text/markdown',
  'text/wording',
  'text/agent-profile',
  '../lib/text/hidden-characters',
  'text/file-names',
  '../lib/http/sse-reader',
  'browser/texts',
  'browser/nodes',
  'browser/icons',
  'browser/copy',
  'browser/highlight',
  'browser/prose',
  'browser/stored',
  'browser/versions',
  'browser/edit',
  'browser/topics',
  'browser/outbox',
  'browser/notice',
  'browser/activity',
  'browser/upload',
  'browser/link',
  'browser/sender',
  'browser/files',
  'browser/message',
  'browser/draft',
  'browser/conversation',
  'browser/view',
  'browser/all-topics',
  'browser/attachments',
  'browser/recorder',
  'browser/chat',
]
const ENTRIES = {
  page: [...CHAT, 'browser/theme', 'browser/colour', 'browser/page'],
  panel: [...CHAT, 'browser/panel'],
  embed: [
    ...['texts/language', 'text/agent-profile', 'text/metadata'],
    ...['browser/nodes', 'browser/colour', 'browser/embed'],
  ],
  highlighter: ['browser/highlighter'],
  offline: ['browser/stored', 'browser/offline'],
  passkey: ['browser/passkey'],
  dash: ['text/ages', 'browser/dash-times', 'browser/dash-live', 'browser/dash'],
} as const

export function buildScript(entry: keyof typeof ENTRIES): string {
  return joinModules(ENTRIES[entry])
}

/** Values that JSON can express. */
type ScriptConstants = Readonly<Record<string, unknown>>

/** Wraps the code so that it adds no globals; `constants` are its parameters. */
export function wrapInFunction(code: string, constants: ScriptConstants): string {
  const [names, values] = [Object.keys(constants), Object.values(constants).map(toLiteral)]
  return `((${names.join(', ')}) => {\n'use strict'\n${code}\n})(${values.join(', ')})\n`
}

/** A module whose exports are those named. */
export function wrapInModule(code: string, constants: ScriptConstants, exported: readonly string[]): string {
  const all = exported.join(', ')
  return `export const { ${all} } = ${wrapInFunction(`${code}\nreturn { ${all} }`, constants)}`
}

/** The modules as the body of one function. */
export function joinModules(paths: readonly string[]): string {
  return paths.map((path) => minify(stripModuleSyntax(readModule(path)))).join('\n')
}

/** Reads a module as JavaScript: TypeScript in the checkout, compiled in the package. */
function readModule(name: string): string {
  const extension = extname(import.meta.filename)
  const text = readFileSync(join(import.meta.dirname, '..', name + extension), 'utf8')
  return extension === '.ts' ? stripTypeScriptTypes(text) : text
}

function stripModuleSyntax(module: string): string {
  return module
    .replace(/^import\s[^'"]*from\s*['"][^'"]+['"];?$/gm, '')
    .replace(/^export \{[^}]*\};?$/gm, '')
    .replace(/^export /gm, '')
}

/** Removes comments and indentation line by line: no string of these modules spans lines. */
export function minify(code: string): string {
  return code
    .replace(/^[ \t]*\/\*[\s\S]*?\*\/[ \t]*$/gm, '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('//'))
    .join('\n')
}

/** A literal that is safe inside a script element. */
function toLiteral(value: unknown): string {
  return JSON.stringify(value)
    .replaceAll('<', '\\u003c')
    .replaceAll('\u2028', '\\u2028')
    .replaceAll('\u2029', '\\u2029')
}
