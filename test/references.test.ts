// Links between documents, and file names in documents and comments: each one leads to a file or a heading that exists.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { suite, test } from 'node:test'

const ROOT = dirname(import.meta.dirname)

/** A file name with an extension of ours; a name that is part of a URL or of a longer path is matched as a whole. */
const FILE_NAME = /(?<![\w./:@<>*$-])[\w.-]*[\w-](?:\/[\w.-]+)*\.(?:ts|js|md)\b(#[\w-]+)?/g
/** Files that users and agents write or a browser requests, and a library that is called like a file. */
const FOREIGN = new Set(['AGENTS.md', 'CLAUDE.md', 'MEMORY.md', 'SYSTEM.md', 'work.md', 'widget.js', 'ipaddr.js'])
/** What was true of an older version, what agents read, and this file. */
const NOT_READ = /^(CHANGELOG\.md|products\/.*|test\/references\.test\.ts)$/
const COMMENT = /^[ \t]*(?:\/\/|\/?\*).*$|\s\/\/ .*$/gm
const LINK = /\]\((?!https?:|mailto:)([^)\s]+)\)/g

/** Paths of the repository to their texts; texts of documents and code only. */
type Files = ReadonlyMap<string, string>

/** As GitHub makes an anchor of a heading. */
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

/** A link is relative to its document. */
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

/** A file may be named from the root, from its folder, or by the end of its path. */
function deadNames(files: Files): string[] {
  const ends = new Set(
    [...files.keys()].flatMap((path) => path.split('/').map((_, at, parts) => parts.slice(at).join('/'))),
  )
  return [...files].flatMap(([path, text]) =>
    namesIn(path, text).flatMap((found) => {
      const [name = '', anchor] = found.split('#')
      const to = files.has(name) ? name : [...files.keys()].find((other) => other.endsWith(`/${name}`))
      const isThere = ends.has(name) || files.has(posix.join(posix.dirname(path), name)) || FOREIGN.has(name)
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
  const paths = globSync(['*.*', 'LICENSE', '{.ci,.github,bench,bin,docker,docs,products,src,test}/**/*.*'], {
    cwd: ROOT,
  })
  const isText = (path: string): boolean => /\.(ts|js|md)$/.test(path) && !NOT_READ.test(path)
  return new Map(paths.map((path) => [path, isText(path) ? readFileSync(join(ROOT, path), 'utf8') : '']))
}

const files = ourFiles()

test('every link of a document leads to a file or heading of the repository', () => {
  assert.deepEqual(deadLinks(files), [])
})

test('every file that a document or a comment names exists', () => {
  assert.deepEqual(deadNames(files), [])
})

suite('a dead reference is found', () => {
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
  for (const [what, found] of Object.entries(dead)) test(what, () => assert.equal(found.length, 1, found.join('\n')))
  test('and what exists is not', () => {
    assert.deepEqual(
      deadLinks(docs('# Two words\n[b](../src/core/b.ts) [c](#two-words) [d](https://example.org/x.md)')),
      [],
    )
    assert.deepEqual(deadNames(docs('see `core/b.ts` and `src/core/b.ts`')), [])
    assert.deepEqual(deadNames(code("import './gone.ts' // see docs/a.md#two-words")), [])
  })
})
