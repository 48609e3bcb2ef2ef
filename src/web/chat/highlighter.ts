// `highlight.js`, which the chat loads when a message contains code: the plain lexer of sugar-high and a table of languages.
//
// sugar-high, because it reads each character once and returns tokens: 50,000 hostile characters take at most 40 ms, while
// @speed-highlight/core took 343 ms for 8,000 of C. Its own mode for JavaScript and HTML searches ahead at each `<` and is left out.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, posix } from 'node:path'
import { lazy } from '../../lib/lazy.ts'
import { buildScript, minify, wrapInFunction } from './script.ts'

/** Each after the modules that it imports. */
const LIBRARY = [
  ...['shared', 'core', 'presets/hash-comment-base', 'presets/clike-base'],
  ...[
    'c',
    'cpp',
    'csharp',
    'css',
    'dockerfile',
    'go',
    'graphql',
    'hcl',
    'java',
    'json',
    'kotlin',
    'php',
    'powershell',
  ].map((name) => `lang/${name}`),
  ...['python', 'ruby', 'rust', 'shell', 'sql', 'swift', 'toml', 'yaml'].map((name) => `lang/${name}`),
]

export interface HighlighterScript {
  readonly code: string
  /** For the page's content security policy and the script element. */
  readonly integrity: string
}

export const highlighterScript = lazy((): HighlighterScript => {
  const root = dirname(createRequire(import.meta.url).resolve('sugar-high'))
  const modules = LIBRARY.map((name) => moduleFunction(name, readFileSync(join(root, `${name}.js`), 'utf8')))
  const library = `const LIBRARY = {}\n${modules.join('\n')}`
  const code = `/*! sugar-high, MIT License, by Jiachi Liu */\n${wrapInFunction(`${library}\n${buildScript('highlighter')}`, {})}`
  return { code, integrity: `sha256-${createHash('sha256').update(code).digest('base64')}` }
})

/** A module of the library as a property of LIBRARY: names of different modules stay apart. */
function moduleFunction(name: string, source: string): string {
  const names: string[] = []
  const code = source
    .replace(/^import \{([^}]*)\} from '([^']+)'$/gm, (_, imported: string, from: string) => {
      const path = posix.join(posix.dirname(name), from).replace(/\.js$/, '')
      return `const {${imported.replaceAll(/ as /g, ': ')}} = LIBRARY['${path}']`
    })
    .replace(/^export \{([^}]*)\}$/gm, (_, exported: string) => {
      names.push(exported)
      return ''
    })
    .replace(/^export (const|function) (\w+)/gm, (_, kind: string, exported: string) => {
      names.push(exported)
      return `${kind} ${exported}`
    })
  return `LIBRARY['${name}'] = (() => {\n${minify(code)}\nreturn { ${names.join(', ')} }\n})()`
}
