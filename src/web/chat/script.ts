// The scripts that a browser gets: the modules of ../text, ../browser and one of lib, one after the other. There is no bundler: the
// modules have distinct names for what they hold, so that taking their imports and exports away joins them.
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { extname, join } from 'node:path'

/** In an order in which each finds what it needs when it starts. */
const CHAT = [
  'text/markdown',
  '../lib/http/sse-reader',
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

export type ScriptEntry = keyof typeof ENTRIES

export function buildScript(entry: ScriptEntry): string {
  return joinModules(ENTRIES[entry])
}

/** A script that leaves nothing behind in the page; `given` are texts that it finds under these names. */
export function wrapInFunction(code: string, given: Readonly<Record<string, string>>): string {
  const [names, values] = [Object.keys(given), Object.values(given).map(literal)]
  return `((${names.join(', ')}) => {\n'use strict'\n${code}\n})(${values.join(', ')})\n`
}

/** Modules by their paths, as the inside of one function. */
export function joinModules(paths: readonly string[]): string {
  return paths.map((path) => minify(stripModuleSyntax(source(path)))).join('\n')
}

/** A module as JavaScript. In the checkout it still has its types; in the package the compiler has taken them. */
function source(name: string): string {
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

/** Without comments and indentation. No string of these modules goes over a line, so a line can be judged by itself. */
function minify(code: string): string {
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
