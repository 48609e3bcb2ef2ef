import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { compileSegments, compileText, isGlob, patternCovers, patternsMayOverlap } from './glob.ts'

interface Case {
  pattern: string
  yes?: string[]
  no?: string[]
}

const PATHS: Record<string, Case> = {
  'a plain path matches only itself': { pattern: 'acme', yes: ['acme'], no: ['', 'acme/x', 'acmex', 'Acme', 'x/acme'] },
  'a plain path of several segments matches only itself': { pattern: 'a/b', yes: ['a/b'], no: ['a', 'a/b/c', 'a/bc'] },
  'two stars alone match anything, also nothing': { pattern: '**', yes: ['', 'a', 'a/b/c', 'web:x', '/', '\n'] },
  'a star is one segment exactly': { pattern: 'acme/*', yes: ['acme/x'], no: ['acme', 'acme/x/y', 'acmex/x'] },
  'a subtree contains its own root': {
    pattern: 'acme/**',
    yes: ['acme', 'acme/x', 'acme/x/y'],
    no: ['acmex', 'acm', '', 'x/acme', 'acmex/y'],
  },
  'two stars may lead': { pattern: '**/eng', yes: ['eng', 'a/eng', 'a/b/eng'], no: ['engx', 'aeng', 'eng/a', ''] },
  'two stars may be in the middle': {
    pattern: 'a/**/z',
    yes: ['a/z', 'a/b/z', 'a/b/c/z'],
    no: ['az', 'a', 'z', 'a/z/b'],
  },
  'two stars may occur twice': { pattern: '**/a/**', yes: ['a', 'x/a', 'a/y', 'x/a/y/z'], no: ['', 'b', 'xa', 'ab'] },
  'two stars side by side are as one': { pattern: 'a/**/**/b', yes: ['a/b', 'a/x/b', 'a/x/y/b'], no: ['a', 'ab'] },
  'two stars and a star ask for at least one segment': { pattern: 'a/**/*', yes: ['a/b', 'a/b/c'], no: ['a'] },
  'a star and two stars too': { pattern: 'a*/**', yes: ['a', 'ab', 'ab/c/d'], no: ['b', 'b/a'] },
  'a star leads one segment': { pattern: '*/eng', yes: ['acme/eng', '/eng'], no: ['eng', 'a/b/eng'] },
  'a star matches within its segment': { pattern: 'a*c', yes: ['ac', 'abc', 'abbc'], no: ['a/c', 'ab', 'acb'] },
  'several stars in one segment': { pattern: '*a*b*', yes: ['ab', 'xaybz', 'aabb'], no: ['ba', 'a/b', ''] },
  'a question mark is one character': { pattern: 'a?c', yes: ['abc', 'a😀c', 'a?c'], no: ['ac', 'abbc', 'a/c'] },
  'a set is one of its characters': { pattern: '[ab]x', yes: ['ax', 'bx'], no: ['cx', 'x', 'abx'] },
  'a set may be a range': { pattern: '[a-c]', yes: ['a', 'b', 'c'], no: ['d', '-', ''] },
  'a set may be negated by !': { pattern: '[!a]', yes: ['b', '!'], no: ['a', '', '/'] },
  'a set may be negated by ^': { pattern: '[^a-c]', yes: ['d', '^'], no: ['b', '/'] },
  'a negation mark is literal after the start': { pattern: '[a!^]', yes: ['a', '!', '^'], no: ['b'] },
  'a range that spans the slash does not match it': { pattern: 'a[+-9]b', yes: ['a.b', 'a5b'], no: ['a/b'] },
  'a leading or trailing dash is literal': { pattern: '[-a][b-]', yes: ['-b', 'a-'], no: ['bb', 'a,'] },
  'an escaped character in a set is literal': { pattern: '[\\]\\-z]', yes: [']', '-', 'z'], no: ['\\', 'a'] },
  'an escaped range end is literal': { pattern: '[\\a-\\c]', yes: ['b'], no: ['\\'] },
  'a set may contain stars, question marks and an opening bracket': {
    pattern: '[*?[]',
    yes: ['*', '?', '['],
    no: ['a'],
  },
  'a closing bracket alone is literal': { pattern: 'a]*', yes: ['a]', 'a]b'], no: ['a'] },
  'a backslash makes a character literal': { pattern: '\\*\\?\\[\\\\', yes: ['*?[\\'], no: ['a?[\\'] },
  'characters of a regular expression are literal': {
    pattern: 'a.b+(c)*',
    yes: ['a.b+(c)'],
    no: ['axb+(c)', 'a.bb(c)'],
  },
  'an emoji may be in a range': { pattern: '[😀-😂]', yes: ['😁'], no: ['😃', '\ud83d'] },
  'a pattern longer than a machine word matches the same': {
    pattern: `${'ab'.repeat(20)}*/**/z?`,
    yes: [`${'ab'.repeat(20)}/zz`, `${'ab'.repeat(20)}q/x/y/zz`],
    no: [`${'ab'.repeat(19)}/zz`, `${'ab'.repeat(20)}/z`],
  },
}

const MALFORMED: Record<string, string> = {
  'an unclosed set': '[',
  'an unclosed set with members': 'a/[bc',
  'a set that a slash cuts in two': '[a/b]',
  'a set whose closing bracket is escaped': '[a\\]',
  'a trailing backslash': 'a\\',
  'a backslash before a slash': 'a\\/b',
  'an empty set': 'a[]b',
  'a set that begins with its closing bracket': '[]a]',
  'an empty negated set': '[!]',
  'a reversed range': '[z-a]',
  'three stars': '***',
  'two stars after a name': 'a**',
  'two stars before a name': '**a',
  'two stars inside a name of a deeper segment': 'x/a**b/y',
  'a pattern of more than 1024 characters': 'a'.repeat(1025),
}

suite('a path glob', () => {
  for (const [sentence, { pattern, yes = [], no = [] }] of Object.entries(PATHS)) {
    test(`${sentence}: ${pattern.slice(0, 60)}`, () => {
      const matches = compileSegments(pattern)
      assert.ok(matches, 'the pattern compiles')
      for (const subject of yes) assert.equal(matches(subject), true, `should match ${JSON.stringify(subject)}`)
      for (const subject of no) assert.equal(matches(subject), false, `should not match ${JSON.stringify(subject)}`)
    })
  }

  for (const [sentence, pattern] of Object.entries(MALFORMED)) {
    test(`${sentence} is malformed: ${pattern.slice(0, 20)}`, () => assert.equal(compileSegments(pattern), undefined))
  }

  test('keeps no state between subjects', () => {
    const matches = compileSegments('a?/**/[xy]')
    assert.ok(matches)
    assert.deepEqual(['ab/c/x', 'ab', 'ab/y', 'q', 'ab/x'].map(matches), [true, false, true, false, true])
  })

  test('compiles a literal of 1024 characters', () => {
    const text = 'a'.repeat(1024)
    assert.equal(compileSegments(text)?.(text), true)
  })

  const letters = 'a'.repeat(65_536)
  const paths = 'a/'.repeat(32_768)
  const HOSTILE: Record<string, [pattern: string, subject: string]> = {
    'many stars': ['a*'.repeat(511), `${letters}b`],
    'a long run after a star': [`*${'a'.repeat(1000)}b*`, letters],
    'a long run with a question mark': [`*?${'a'.repeat(1000)}b*`, letters],
    'many deep stars': [`${'**/a/'.repeat(200)}b`, paths],
    'deep stars and stars': [`${'**/a*/'.repeat(170)}b`, paths],
    'a subject where every character is another': [
      `*${'[a-b]'.repeat(200)}*`,
      String.fromCodePoint(...Array.from({ length: 50_000 }, (_, at) => at + 0x10000)),
    ],
    'a pattern of 64 KiB': ['a*'.repeat(32_768), letters],
  }
  for (const [sentence, [pattern, subject]] of Object.entries(HOSTILE)) {
    test(`is not slowed down by ${sentence}`, () => {
      assert.ok(quickest(() => compileSegments(pattern)?.(subject)) < QUICK_MS)
    })
  }
})

suite('a text glob', () => {
  const TEXTS: Record<string, Case> = {
    'a text without a star matches only itself': { pattern: 'a.b', yes: ['a.b'], no: ['', 'axb', 'a.bc', 'A.b'] },
    'an empty pattern matches only the empty text': { pattern: '', yes: [''], no: ['a'] },
    'a star alone matches anything, also nothing': { pattern: '*', yes: ['', 'a', 'a/b:c,d)\n'] },
    'a star crosses slashes and colons': {
      pattern: 'telegram:*',
      yes: ['telegram:', 'telegram:user/1:2'],
      no: ['telegram'],
    },
    'a star in front': { pattern: '*.get', yes: ['.get', 'acl.get'], no: ['get', 'acl.gets'] },
    'head and tail do not overlap': { pattern: 'ab*ba', yes: ['abba', 'abxba'], no: ['aba', 'ab'] },
    'parts are found in order': { pattern: 'a*bc*d', yes: ['abcd', 'axbcyd', 'abbcd'], no: ['acbd', 'abd', 'abc'] },
    'a part that half repeats is found': { pattern: '*aab*', yes: ['aaab', 'xaaaab'], no: ['aba', 'aa'] },
    'a part must end before the tail begins': { pattern: 'x*ab*b', yes: ['xabb', 'xabab'], no: ['xab'] },
    'two stars are the same as one': { pattern: 'a**b', yes: ['ab', 'axb'], no: ['a'] },
    'nothing else is special': { pattern: '?[a]\\*', yes: ['?[a]\\', '?[a]\\x'], no: ['xa\\', '?a\\'] },
  }
  for (const [sentence, { pattern, yes = [], no = [] }] of Object.entries(TEXTS)) {
    test(`${sentence}: ${pattern}`, () => {
      const matches = compileText(pattern)
      assert.ok(matches, 'the pattern compiles')
      for (const subject of yes) assert.equal(matches(subject), true, `should match ${JSON.stringify(subject)}`)
      for (const subject of no) assert.equal(matches(subject), false, `should not match ${JSON.stringify(subject)}`)
    })
  }

  test('refuses a pattern of more than 1024 characters', () => assert.equal(compileText('*'.repeat(1025)), undefined))

  test('is not slowed down by any pattern', () => {
    const subject = 'a'.repeat(65_536)
    for (const pattern of [`*${'a'.repeat(1000)}b*`, `*b${'a'.repeat(1000)}*`, '*a'.repeat(500).concat('*b*')]) {
      assert.ok(quickest(() => compileText(pattern)?.(subject)) < QUICK_MS, pattern.slice(0, 20))
    }
  })
})

suite('comparing two path globs', () => {
  const COVERED: [outer: string, inner: string, expected: boolean][] = [
    ['**', 'a/**', true],
    ['a/**', 'a/**', true],
    ['a/**', 'a', true],
    ['a/**', 'a/b/*', true],
    ['a/**', 'a/b/**', true],
    ['a/*', 'a/*', true],
    ['a/*', 'a/b', true],
    ['a/*', 'a/**', false],
    ['a/**', '**', false],
    ['a/**', 'ab/**', false],
    ['a/**', 'a*/b', false],
    ['a/b/**', 'a/*/**', false],
    ['a', 'a/**', false],
    ['*/b/**', 'a/b/c/*', false],
    ['[', 'a', false],
  ]
  for (const [outer, inner, expected] of COVERED) {
    test(`${outer} ${expected ? 'certainly covers' : 'is not known to cover'} ${inner}`, () =>
      assert.equal(patternCovers(outer, inner), expected))
  }

  const MEETING: [left: string, right: string, expected: boolean][] = [
    ['a/**', 'a/b/**', true],
    ['a/*', '**', true],
    ['a/**', 'b/**', false],
    ['a/b/*', 'a/c/**', false],
    ['a', 'a/**', true],
    ['a', 'a/*', false],
    ['a/*/x', 'a/b', false],
    ['*/x', 'a/**', true],
    ['sales-*', 'sales-9*', true],
    ['sales-*', '*-9', true],
    ['sales-*', 'salesman*', false],
    ['*a', '*b', false],
    ['a*', 'b*', false],
    ['*/a', '**/b', false],
    ['[ab]?', '[bc]?', true],
    ['[ab]?', '[cd]?', false],
    ['[!a]', 'a*', false],
    ['a/**/z', '**/y/*', true],
    ['?', '*/*', false],
    [`${'a'.repeat(130)}*`, `${'b'.repeat(130)}*`, true],
    [`${'a'.repeat(120)}*`, `${'b'.repeat(120)}*`, false],
  ]
  for (const [left, right, expected] of MEETING) {
    test(`${left} and ${right} ${expected ? 'may overlap' : 'never overlap'}`, () => {
      assert.equal(patternsMayOverlap(left, right), expected)
      assert.equal(patternsMayOverlap(right, left), expected)
    })
  }
})

suite('any glob', () => {
  const character = fc.constantFrom('a', 'b', 'c', '/', '*', '-')
  const subjects = fc.string({ unit: character, maxLength: 8 })
  const atom = fc.constantFrom('a', 'b', '*', '?', '[ab]', '[!a]', '[a-c]', '[^b*]', '\\*', '-')
  const segment = fc
    .array(atom, { maxLength: 5 })
    .map((atoms) => atoms.join(''))
    .filter((text) => !/(?<!\\)\*\*/.test(text))
  const path = fc
    .array(fc.oneof(segment, fc.constant('**')), { minLength: 1, maxLength: 5 })
    .map((all) => all.join('/'))
  // Moves the interesting part across the border between two machine words.
  const padding = fc.integer({ min: 0, max: 70 }).map((count) => 'a'.repeat(count))

  test('never throws, whatever the pattern and the subject', () => {
    const wild = fc.string({ unit: fc.constantFrom(...'ab/*?[]!^-\\:😀\ud800'), maxLength: 40 })
    fc.assert(
      fc.property(
        fc.oneof(wild, fc.string({ unit: 'binary' })),
        fc.oneof(wild, fc.string({ unit: 'binary' })),
        (pattern, subject) => {
          compileSegments(pattern)?.(subject)
          compileText(pattern)?.(subject)
          patternCovers(pattern, subject)
          patternsMayOverlap(pattern, subject)
        },
      ),
    )
  })

  test('matches only itself without special characters', () => {
    const plain = fc.string({ unit: fc.constantFrom(...'abz09._-/:@'), maxLength: 12 })
    fc.assert(
      fc.property(plain, plain, (pattern, subject) => {
        assert.equal(isGlob(pattern), false)
        for (const compile of [compileSegments, compileText]) {
          assert.equal(compile(pattern)?.(pattern), true)
          assert.equal(compile(pattern)?.(subject), subject === pattern)
        }
      }),
    )
  })

  test('agrees with a naive path matcher', () => {
    fc.assert(
      fc.property(path, subjects, padding, (pattern, subject, pad) => {
        const matches = compileSegments(pad + pattern)
        // Padding may turn a whole segment `**` into part of one, which is malformed.
        if (!matches) return assert.match(pattern, /^\*\*/)
        assert.equal(matches(pad + subject), naivePath((pad + pattern).split('/'), (pad + subject).split('/')))
      }),
      { numRuns: 2000 },
    )
  })

  test('agrees with a naive text matcher', () => {
    const pattern = fc.string({ unit: fc.constantFrom('a', 'b', '*'), maxLength: 8 })
    fc.assert(
      fc.property(pattern, fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 10 }), (glob, subject) => {
        assert.equal(compileText(glob)?.(subject), naiveText(glob, subject))
      }),
      { numRuns: 2000 },
    )
  })

  test('overlaps with another exactly when some path matches both', () => {
    // Every path that can tell two such small patterns apart.
    const small = fc
      .array(fc.constantFrom('a', 'b', '*', '?', '[!a]', '/', '/**/'), { maxLength: 4 })
      .map((atoms) => atoms.join(''))
      .filter((text) => compileSegments(text) !== undefined)
    let paths = ['']
    const all = [...paths]
    for (let length = 1; length <= 7; length++) {
      paths = paths.flatMap((text) => [...'ab/'].map((next) => text + next))
      all.push(...paths)
    }
    fc.assert(
      fc.property(small, small, (left, right) => {
        const [isLeft, isRight] = [compileSegments(left), compileSegments(right)]
        const isMet = all.some((text) => isLeft?.(text) && isRight?.(text))
        assert.equal(patternsMayOverlap(left, right), isMet)
      }),
      { numRuns: 300 },
    )
  })

  test('matches all that a covered glob matches, and overlaps with it', () => {
    fc.assert(
      fc.property(path, path, subjects, (outer, inner, subject) => {
        const [matchesOuter, matchesInner] = [compileSegments(outer), compileSegments(inner)]
        if (!matchesInner?.(subject)) return
        if (patternCovers(outer, inner)) assert.equal(matchesOuter?.(subject), true)
        if (matchesOuter?.(subject)) assert.equal(patternsMayOverlap(outer, inner), true)
      }),
      { numRuns: 2000 },
    )
  })
})

/** CPU milliseconds of this thread, so that a busy machine does not fail a test of the algorithm. */
function quickest(work: () => unknown): number {
  const times = [1, 2, 3].map(() => {
    const start = process.threadCpuUsage()
    work()
    return process.threadCpuUsage(start).user / 1000
  })
  return Math.min(...times)
}

/** Several times what it takes; exponential backtracking would take far longer. */
const QUICK_MS = 200

function naivePath(pattern: readonly string[], subject: readonly string[]): boolean {
  const [segment, ...others] = pattern
  if (segment === undefined) return subject.length === 0
  const [first, ...rest] = subject
  if (segment === '**') return naivePath(others, subject) || (first !== undefined && naivePath(pattern, rest))
  return first !== undefined && naiveSegment(segment, first) && naivePath(others, rest)
}

function naiveSegment(pattern: string, subject: string): boolean {
  if (pattern === '') return subject === ''
  if (pattern[0] === '*') {
    return naiveSegment(pattern.slice(1), subject) || (subject !== '' && naiveSegment(pattern, subject.slice(1)))
  }
  const atom = /^(?:\[[^\]]*\]|\\.|.)/.exec(pattern)?.[0] ?? ''
  return (
    subject !== '' && naiveAtom(atom, subject[0] ?? '') && naiveSegment(pattern.slice(atom.length), subject.slice(1))
  )
}

function naiveAtom(atom: string, character: string): boolean {
  if (atom === '?') return true
  if (atom[0] === '\\') return atom[1] === character
  return atom[0] === '[' ? new RegExp(atom.replace('[!', '[^')).test(character) : atom === character
}

function naiveText(pattern: string, subject: string): boolean {
  if (pattern === '') return subject === ''
  if (pattern[0] === '*') {
    return naiveText(pattern.slice(1), subject) || (subject !== '' && naiveText(pattern, subject.slice(1)))
  }
  return pattern[0] === subject[0] && naiveText(pattern.slice(1), subject.slice(1))
}
