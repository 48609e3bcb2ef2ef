// Checks that links in documents and file names in documents and comments refer to existing files and headings.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { suite, test } from 'node:test'

const ROOT = dirname(import.meta.dirname)

/** A file name with one of our extensions. URLs and longer paths are matched as a whole. */
const FILE_NAME = /(?<![\w./:@<>*$-])[\w.-]*[\w-](?:\/[\w.-]+)*\.(?:ts|js|md)\b(#[\w-]+)?/g
/** Files of the instance that `npm start` creates. */
const INSTANCE_FILE = /^\.svc\//
/** Files that users or agents write or that exist only as a URL, and a library whose name ends in `.js`. */
const FOREIGN = new Set([
  'AGENTS.md',
  'CLAUDE.md',
  'MEMORY.md',
  'SYSTEM.md',
  'work.md',
  'chat.js',
  'widget.js',
  'highlight.js',
  'sw.js',
  'ipaddr.js',
])
/** The history of older versions, files for agents, and this file. */
const NOT_READ = /^(CHANGELOG\.md|products\/.*|test\/references\.test\.ts)$/
const COMMENT = /^[ \t]*(?:\/\/|\/?\*).*$|\s\/\/ .*$/gm
const LINK = /\]\((?!https?:|mailto:)([^)\s]+)\)/g

/** Text by path of the repository; empty for files other than documents and code. */
type Files = ReadonlyMap<string, string>

/** The anchor that GitHub generates for a heading. */
function anchorOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
}

function hasAnchor(files: Files, path: string, anchor: string): boolean {
  const headings = (files.get(path) ?? '').matchAll(/^#+ (.*)$/gm)
  return [...headings].some(([, heading = '']) => anchorOf(heading) === anchor)
}

/** Links are relative to their document. */
function deadLinks(files: Files): string[] {
  return [...files].flatMap(([path, text]) => {
    if (!path.endsWith('.md')) return []
    return [...text.matchAll(LINK)].flatMap(([, target = '']) => {
      const [name = '', anchor] = target.split('#')
      const to = name === '' ? path : posix.join(posix.dirname(path), name).replace(/\/$/, '')
      const isThere = files.has(to) || [...files.keys()].some((other) => other.startsWith(`${to}/`))
      if (isThere && (anchor === undefined || hasAnchor(files, to, anchor))) return []
      return [`${path} links to ${target}`]
    })
  })
}

/** A name may be relative to the root or to its folder, or be the end of a path. */
function deadNames(files: Files): string[] {
  const ends = new Set(
    [...files.keys()].flatMap((path) => path.split('/').map((_, at, parts) => parts.slice(at).join('/'))),
  )
  return [...files].flatMap(([path, text]) =>
    namesIn(path, text).flatMap((found) => {
      const [name = '', anchor] = found.split('#')
      const to = files.has(name) ? name : [...files.keys()].find((other) => other.endsWith(`/${name}`))
      const isForeign = FOREIGN.has(name) || INSTANCE_FILE.test(name)
      const isThere = isForeign || ends.has(name) || files.has(posix.join(posix.dirname(path), name))
      if (isThere && (anchor === undefined || (to !== undefined && hasAnchor(files, to, anchor)))) return []
      return [`${path} names ${found}`]
    }),
  )
}

function namesIn(path: string, text: string): string[] {
  const read = path.endsWith('.md') ? text.replace(LINK, ' ').replace(/^```[\s\S]*?^```/gm, '') : commentsOf(text)
  return [...read.matchAll(FILE_NAME)].map(([name]) => name)
}

function commentsOf(text: string): string {
  return [...text.matchAll(COMMENT)].map(([line]) => line).join('\n')
}

function ourFiles(): Files {
  const paths = globSync(['*.*', 'LICENSE', '{.ci,.github,bench,bin,docs,packages,products,src,test}/**/*.*'], {
    cwd: ROOT,
  })
  const isText = (path: string): boolean => /\.(ts|js|md)$/.test(path) && !NOT_READ.test(path)
  return new Map(paths.map((path) => [path, isText(path) ? readFileSync(join(ROOT, path), 'utf8') : '']))
}

const files = ourFiles()

test('every link in a document leads to an existing file or heading', () => {
  assert.deepEqual(deadLinks(files), [])
})

test('every file named in a document or a comment exists', () => {
  assert.deepEqual(deadNames(files), [])
})

suite('dead references', () => {
  const docs = (text: string): Files =>
    new Map([
      ['docs/a.md', text],
      ['src/core/b.ts', ''],
    ])
  const code = (text: string): Files =>
    new Map([
      ['docs/a.md', '## Two words'],
      ['src/core/b.ts', text],
    ])
  const dead: Record<string, string[]> = {
    'a link to a file that is gone': deadLinks(docs('[b](../src/core/gone.ts)')),
    'a link to a heading that is gone': deadLinks(docs('# One\n[b](#two)')),
    'a name in a document': deadNames(docs('see `core/gone.ts`')),
    'a name in a comment': deadNames(code('// see gone.ts')),
    'a heading in a comment': deadNames(code('/** See docs/a.md#gone */')),
  }
  for (const [what, found] of Object.entries(dead))
    test(`finds ${what}`, () => assert.equal(found.length, 1, found.join('\n')))
  test('accepts references that exist', () => {
    assert.deepEqual(
      deadLinks(docs('# Two words\n[b](../src/core/b.ts) [c](#two-words) [d](https://example.org/x.md)')),
      [],
    )
    assert.deepEqual(deadNames(docs('see `core/b.ts` and `src/core/b.ts`')), [])
    assert.deepEqual(deadNames(code("import './gone.ts' // see docs/a.md#two-words")), [])
  })
})
