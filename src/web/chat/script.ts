// The scripts that a browser gets: the modules of ../text and ../browser, one after the other. There is no bundler: the
// modules have distinct names for what they hold, so that taking their imports and exports away joins them.
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { extname, join } from 'node:path'

/** In an order in which each finds what it needs when it starts. */
const CHAT = [
  'text/markdown',
  'text/events',
  'browser/nodes',
  'browser/prose',
  'browser/stored',
  'browser/topics',
  'browser/outbox',
  'browser/notice',
  'browser/link',
  'browser/message',
  'browser/conversation',
  'browser/view',
  'browser/chat',
]
const ENTRIES = { page: [...CHAT, 'browser/page'], embed: [...CHAT, 'browser/embed'] } as const

export type Entry = keyof typeof ENTRIES

export function script(entry: Entry): string {
  return joinedModules(ENTRIES[entry])
}

/** A script that leaves nothing behind in the page; `given` are texts that it finds under these names. */
export function asFunction(code: string, given: Readonly<Record<string, string>>): string {
  const [names, values] = [Object.keys(given), Object.values(given).map(literal)]
  return `((${names.join(', ')}) => {\n'use strict'\n${code}\n})(${values.join(', ')})\n`
}

/** Modules by their paths, as the inside of one function. */
export function joinedModules(paths: readonly string[]): string {
  return paths.map((path) => small(joined(source(path)))).join('\n')
}

/** A module as JavaScript. In the checkout it still has its types; in the package the compiler has taken them. */
function source(name: string): string {
  const extension = extname(import.meta.filename)
  const text = readFileSync(join(import.meta.dirname, '..', name + extension), 'utf8')
  return extension === '.ts' ? stripped(text) : text
}

/** Node says once that this may change. It runs in the checkout only, on the Node that the checkout brings. */
function stripped(text: string): string {
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return stripTypeScriptTypes(text)
  } finally {
    process.emitWarning = emitWarning
  }
}

function joined(module: string): string {
  return module
    .replace(/^import\s[^'"]*from\s*['"][^'"]+['"];?$/gm, '')
    .replace(/^export \{[^}]*\};?$/gm, '')
    .replace(/^export /gm, '')
}

/** Without comments and indentation. No string of these modules goes over a line, so a line can be judged by itself. */
function small(code: string): string {
  return code
    .replace(/^[ \t]*\/\*[\s\S]*?\*\/[ \t]*$/gm, '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('//'))
    .join('\n')
}

/** Quoted so that it may also stand inside a script element. */
function literal(text: string): string {
  return JSON.stringify(text).replaceAll('<', '\\u003c').replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')
}
