import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '../../lib/refusal.ts'
import { listBundledPackages, parsePackageSource, readPackage } from './package-source.ts'

function refusalOf(text: string): string {
  try {
    parsePackageSource(text)
  } catch (error) {
    if (error instanceof Refusal) return error.message
    throw error
  }
  return 'accepted'
}

suite('the source of a package', () => {
  const urls: Record<string, [url: string, ref?: string]> = {
    'https://git.example/a/b.git': ['https://git.example/a/b.git'],
    'git+https://git.example/a/b': ['https://git.example/a/b'],
    'git+https://git.example/a/b#v1.2': ['https://git.example/a/b', 'v1.2'],
    'ssh://git@git.example/a/b#0123456789abcdef': ['ssh://git@git.example/a/b', '0123456789abcdef'],
    'git@git.example:a/b.git#feature/x': ['git@git.example:a/b.git', 'feature/x'],
    'file:///srv/repositories/b': ['file:///srv/repositories/b'],
  }
  for (const [text, [url, ref]] of Object.entries(urls))
    test(`is the repository ${text}`, () => {
      const expected = { kind: 'git', url, source: text, ...(ref === undefined ? {} : { ref }) }
      assert.deepEqual(parsePackageSource(text), expected)
    })

  test('is a directory if it is no URL, never a name on the network', () => {
    for (const text of ['litellm', './litellm', '/srv/x', 'github.com/a/b', 'a b'])
      assert.deepEqual(parsePackageSource(text), { kind: 'directory', path: resolve(text), source: resolve(text) })
  })

  const refused: Record<string, RegExp> = {
    '': /1 to 1024 characters/,
    'x\ny': /without control characters/,
    ['x'.repeat(1025)]: /1 to 1024 characters/,
    '--upload-pack=touch /tmp/x': /must not begin with "-"/,
    '-x': /must not begin with "-"/,
    'http://git.example/b.git': /uses http:\/\/, which is not allowed/,
    'git://git.example/b.git': /uses git:\/\//,
    'git+ext::sh -c id': /not a git URL|uses ext:/,
    'git+b': /not a git URL/,
    'https://git.example/a/b': /does not end in \.git; put git\+ before it/,
    'https://user:word@git.example/b.git': /contains a password/,
    'https://user@git.example/b.git': /contains a password or user name/,
    'ssh://-oProxyCommand=id/x': /not a git URL/,
    'git@-oProxyCommand=id:x': /not a git URL/,
    'git@git.example:-x': /not a git URL/,
    'https://git.example/b.git#': /must be a branch, a tag or a commit/,
    'https://git.example/b.git#-x': /must be a branch, a tag or a commit/,
    'https://git.example/b.git#a..b': /must be a branch, a tag or a commit/,
    'https://git.example/b.git#a:refs/heads/b': /must be a branch, a tag or a commit/,
    'https://git.example/b.git#a#b': /must be a branch, a tag or a commit/,
    'bundled:../../etc': /is not the name of a package/,
  }
  for (const [text, message] of Object.entries(refused))
    test(`is not ${JSON.stringify(text.slice(0, 40))}`, () => assert.match(refusalOf(text), message))

  test('is read again as it is recorded, and no argument of git begins with a dash', () => {
    const part = fc.constantFrom(
      'git+',
      'git@',
      'https://',
      'ssh://',
      'file://',
      '-',
      '..',
      '/',
      '#',
      ':',
      'a',
      '.git',
      '@',
    )
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
        const text = parts.join('')
        if (refusalOf(text) !== 'accepted') return
        const parsed = parsePackageSource(text)
        assert.deepEqual(parsePackageSource(parsed.source), parsed)
        if (parsed.kind === 'git') assert.doesNotMatch(`${parsed.url} ${parsed.ref ?? 'HEAD'}`, /(^| )-/)
      }),
      { numRuns: 1000 },
    )
  })
})

test('a bundled package that does not exist is refused with the names of those that do', async () => {
  await assert.rejects(readPackage({ kind: 'bundled', name: 'nothing', source: 'bundled:nothing' }), (error) => {
    assert.ok(error instanceof Refusal)
    assert.match(error.message, /^there is no bundled package nothing; there is: .*litellm/)
    return true
  })
  assert.ok((await listBundledPackages()).includes('litellm'))
})
