// Colours the code of messages. The highlighter is loaded with the first code in a language that it knows; until that succeeds,
// code stays plain, as on a site whose content security policy forbids it.
import type { Tokenizer } from './highlighter.ts'
import { element } from './nodes.ts'

/** Hash of the highlighter; see `wrapInFunction`. */
declare const HIGHLIGHTER: string

/** Longer code stays plain. */
const CODE_MAX = 20_000
/** Between attempts to load the highlighter; the last one repeats. */
const RETRY_MS = [5_000, 30_000, 120_000, 600_000]

const LANGUAGES: Readonly<Record<string, string>> = {
  c: 'c h',
  cpp: 'cpp c++ cc cxx hpp',
  csharp: 'csharp c# cs',
  css: 'css scss',
  dockerfile: 'dockerfile docker',
  go: 'go golang',
  graphql: 'graphql gql',
  hcl: 'hcl terraform tf',
  html: 'html htm xml svg vue',
  java: 'java',
  javascript: 'javascript js jsx mjs cjs node',
  json: 'json jsonc json5',
  kotlin: 'kotlin kt',
  php: 'php',
  powershell: 'powershell ps1 pwsh',
  python: 'python py python3',
  ruby: 'ruby rb',
  rust: 'rust rs',
  shell: 'shell sh bash zsh console',
  sql: 'sql',
  swift: 'swift',
  toml: 'toml ini',
  typescript: 'typescript ts tsx',
  yaml: 'yaml yml',
}

/** The language that a fence names, for the highlighter. */
export function codeLanguage(name: string): string | undefined {
  const lower = name.toLowerCase()
  return Object.keys(LANGUAGES).find((language) => LANGUAGES[language]?.split(' ').includes(lower))
}

interface CodeHighlighterOptions {
  /** The messages. */
  readonly root: Node
  /** The URL of a script of the link, as the page's policy for scripts demands it. */
  readonly scriptUrl: (name: string) => unknown
}

export class CodeHighlighter {
  readonly #options: CodeHighlighterOptions
  #loading: Promise<Tokenizer> | undefined
  #queue: Promise<void> = Promise.resolve()

  constructor(options: CodeHighlighterOptions) {
    this.#options = options
    const observer = new MutationObserver((changes) => {
      for (const { addedNodes } of changes) for (const node of addedNodes) this.#find(node)
    })
    observer.observe(options.root, { childList: true, subtree: true })
  }

  /** A draft changes too often, and the tokens of code contain none. */
  #find(node: Node): void {
    if (!(node instanceof Element) || node.closest('.draft, code')) return
    for (const code of node.querySelectorAll<HTMLElement>('code[data-language]')) this.#highlightLater(code)
  }

  /** One after the other, so that the page stays responsive. */
  #highlightLater(code: HTMLElement): void {
    const { language = '' } = code.dataset
    delete code.dataset.language
    const text = code.textContent
    if (text.length > CODE_MAX || text === '') return
    this.#loading ??= this.#load()
    this.#queue = this.#queue.then(async () => {
      const tokenize = await this.#loading
      if (!tokenize || !code.isConnected) return
      colour(code, () => tokenize(text, language))
      await new Promise((resolve) => setTimeout(resolve))
    })
  }

  async #load(): Promise<Tokenizer> {
    for (let attempt = 0; ; attempt++) {
      const tokenize = await this.#loadScript()
      if (tokenize) return tokenize
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS[attempt] ?? RETRY_MS.at(-1)))
    }
  }

  /** The script sets the function as a property of its element. */
  #loadScript(): Promise<Tokenizer | undefined> {
    return new Promise((resolve) => {
      const script = element('script', {
        integrity: HIGHLIGHTER,
        crossorigin: 'anonymous',
        referrerpolicy: 'no-referrer',
      })
      const finish = (): void => {
        resolve(Reflect.get(script, 'tokenize'))
        script.remove()
      }
      script.addEventListener('load', finish)
      script.addEventListener('error', finish)
      try {
        Reflect.set(script, 'src', this.#options.scriptUrl('highlight.js'))
        document.head.append(script)
      } catch {
        // A site that enforces trusted types.
        finish()
      }
    })
  }
}

/** Whatever the highlighter does, the code keeps its text. */
function colour(code: HTMLElement, tokenize: () => ReturnType<Tokenizer>): void {
  try {
    const tokens = tokenize()
    if (tokens.map(([, text]) => text).join('') === code.textContent) code.replaceChildren(...tokens.map(tokenNode))
  } catch {
    // It stays plain.
  }
}

function tokenNode([kind, text]: readonly [kind: string, text: string]): Node {
  return kind === '' ? document.createTextNode(text) : element('span', { class: `token-${kind}` }, text)
}
