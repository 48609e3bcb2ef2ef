import assert from 'node:assert/strict'
import { chmodSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { needs } from '../../../test/support/needs.ts'
import { leaveOpenFiles } from '../../../test/support/open-files.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { HostsFile, parseHosts } from './hosts-file.ts'

const read = (text: string): Record<string, readonly string[]> => Object.fromEntries(parseHosts(text))

const FILES: Record<string, { text: string; hosts: Record<string, readonly string[]> }> = {
  'a line is an address and its names': {
    text: '192.0.2.1 a.test b.test\tc',
    hosts: { 'a.test': ['192.0.2.1'], 'b.test': ['192.0.2.1'], c: ['192.0.2.1'] },
  },
  'a name with several addresses has them in the order of the file, each once': {
    text: '192.0.2.2 a.test\n192.0.2.1 a.test\n192.0.2.2 a.test\n2001:db8::1 a.test\n',
    hosts: { 'a.test': ['192.0.2.2', '192.0.2.1', '2001:db8::1'] },
  },
  'the case of a name does not matter, nor a dot at its end': {
    text: '192.0.2.1 A.Test\n192.0.2.2 a.TEST.\n',
    hosts: { 'a.test': ['192.0.2.1', '192.0.2.2'] },
  },
  'a comment goes to the end of its line': {
    text: '# 192.0.2.1 a.test\n192.0.2.2 b.test # c.test\n192.0.2.3 d.test#e.test\n#\n',
    hosts: { 'b.test': ['192.0.2.2'], 'd.test': ['192.0.2.3'] },
  },
  'blanks around and lines of another system are fine': {
    text: '\n  \t192.0.2.1\t \ta.test  \r\n\r\n192.0.2.2 b.test\r\n',
    hosts: { 'a.test': ['192.0.2.1'], 'b.test': ['192.0.2.2'] },
  },
  'IPv6 has one spelling': {
    text: '2001:DB8:0:0::1 a.test\n::ffff:192.0.2.1 b.test\n',
    hosts: { 'a.test': ['2001:db8::1'], 'b.test': ['192.0.2.1'] },
  },
  'lines without a valid address are ignored, also with a zone': {
    text: 'a.test 192.0.2.1\n192.0.2 b.test\n192.0.2.256 c.test\n0x7f.1 d.test\nfe80::1%lo0 e.test\n192.0.2.0/24 f.test\n',
    hosts: {},
  },
  'an address without names says nothing': { text: '192.0.2.1\n192.0.2.2 \n', hosts: {} },
  'a name with characters that no request can contain is ignored': {
    text: '192.0.2.1 bu\u0308cher.test \u212a.test a..test .a.test * *.test a/b b.test\n',
    hosts: { 'b.test': ['192.0.2.1'] },
  },
  'names that objects have are names like others': {
    text: '192.0.2.1 constructor tostring\n',
    hosts: { constructor: ['192.0.2.1'], tostring: ['192.0.2.1'] },
  },
  'an empty file knows no name': { text: '', hosts: {} },
}

suite('reading a hosts file', () => {
  for (const [sentence, { text, hosts }] of Object.entries(FILES))
    test(sentence, () => assert.deepEqual(read(text), hosts))

  test('returns canonical names with the addresses of their lines, whatever the file contains', () => {
    const address = fc.oneof(fc.ipV4(), fc.ipV6())
    const name = fc.stringMatching(/^[A-Za-z0-9_-]{1,8}(\.[A-Za-z0-9_-]{1,8}){0,2}$/)
    const blank = fc.constantFrom(' ', '\t', '  ', ' \t ')
    const word = fc.oneof(name, address, fc.string({ maxLength: 6 }), fc.constantFrom('#', '', '\r', '\u212a'))
    const line = fc
      .tuple(fc.oneof(address, word), fc.array(fc.tuple(blank, word), { maxLength: 4 }))
      .map(([first, rest]) => [first, ...rest.flat()].join(''))
    fc.assert(
      fc.property(fc.array(line, { maxLength: 8 }), (lines) => {
        const text = lines.join('\n')
        for (const [name, addresses] of parseHosts(text)) {
          assert.match(name, /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/)
          assert.equal(new Set(addresses).size, addresses.length)
          for (const address of addresses) assert.ok(text.split('\n').some((line) => says(line, address, name)))
        }
      }),
      { numRuns: 2000 },
    )
  })

  test('reads back a file of names and addresses', () => {
    const address = fc.ipV4()
    const name = fc.stringMatching(/^[a-z0-9_-]{1,3}(\.[a-z0-9_-]{1,3})?$/)
    fc.assert(
      fc.property(fc.array(fc.tuple(address, name), { maxLength: 10 }), (pairs) => {
        const hosts = parseHosts(
          pairs.map(([address, name]) => `${address} ${name.toUpperCase()} # ${name}x\n`).join(''),
        )
        const expected = Map.groupBy(pairs, ([, name]) => name)
        assert.equal(hosts.size, expected.size)
        for (const [name, its] of expected)
          assert.deepEqual(hosts.get(name), [...new Set(its.map(([address]) => address))])
      }),
      { numRuns: 2_000 },
    )
  })
})

/** A second implementation, for one line and one name. */
function says(line: string, address: string, name: string): boolean {
  const words = line.replace(/#[\s\S]*/, '').match(/\S+/g) ?? []
  const [first = '', ...names] = words
  const same = (word: string): boolean => word.replace(/[A-Z]/g, (letter) => letter.toLowerCase()) === name
  return (
    parseHosts(`${first} x`).get('x')?.[0] === address && names.some((word) => same(word) || same(word.slice(0, -1)))
  )
}

suite('a hosts file that changes', () => {
  test('is checked at most once a second', (t) => {
    const path = join(tempDir(t), 'hosts')
    writeFileSync(path, '192.0.2.1 a.test\n')
    const hosts = new HostsFile(path)
    assert.deepEqual(hosts.find('a.test', 5_000), ['192.0.2.1'])
    writeFileSync(path, '192.0.2.2 a.test\n')
    assert.deepEqual(hosts.find('a.test', 5_999), ['192.0.2.1'])
    assert.deepEqual(hosts.find('a.test', 6_000), ['192.0.2.2'])
  })

  test('notices a second change at the same time and of the same size', (t) => {
    const path = join(tempDir(t), 'hosts')
    const hosts = new HostsFile(path)
    for (let turn = 0; turn < 20; turn++) {
      writeFileSync(path, `192.0.2.${100 + turn} a.test\n`)
      assert.deepEqual(hosts.find('a.test', 1_000 * turn), [`192.0.2.${100 + turn}`])
    }
  })

  test('may be replaced, disappear and come back', (t) => {
    const path = join(tempDir(t), 'hosts')
    const hosts = new HostsFile(path)
    assert.equal(hosts.find('a.test', 0), undefined)
    writeFileSync(path, '192.0.2.1 a.test\n')
    assert.deepEqual(hosts.find('a.test', 1_000), ['192.0.2.1'])
    writeFileSync(`${path}.new`, '192.0.2.2 a.test\n')
    renameSync(`${path}.new`, path)
    assert.deepEqual(hosts.find('a.test', 2_000), ['192.0.2.2'])
    rmSync(path)
    assert.equal(hosts.find('a.test', 3_000), undefined)
    writeFileSync(path, '192.0.2.3 a.test\n')
    assert.deepEqual(hosts.find('a.test', 4_000), ['192.0.2.3'])
  })

  test('counts as missing if it cannot be read', (t) => {
    const folder = tempDir(t)
    assert.equal(new HostsFile(folder).find('a.test', 0), undefined)
    assert.equal(new HostsFile(join(folder, 'hosts', 'below-nothing')).find('a.test', 0), undefined)
    const path = join(folder, 'file')
    writeFileSync(path, '192.0.2.1 a.test\n')
    // A path through a file fails with another error.
    assert.equal(new HostsFile(join(path, 'hosts')).find('a.test', 0), undefined)
    chmodSync(path, 0)
    if (process.getuid?.() !== 0) assert.equal(new HostsFile(path).find('a.test', 0), undefined)
  })
})

test('is reread once file descriptors are available again', needs('kernel'), (t) => {
  const path = join(tempDir(t), 'hosts')
  writeFileSync(path, '192.0.2.1 a.test\n')
  const hosts = new HostsFile(path)
  const restore = leaveOpenFiles(0)
  t.after(restore)
  assert.equal(hosts.find('a.test', 0), undefined)
  restore()
  // It is not checked again so soon, but it was never read.
  assert.deepEqual(hosts.find('a.test', 1), ['192.0.2.1'])
  writeFileSync(path, '192.0.2.2 a.test\n')
  const again = leaveOpenFiles(0)
  t.after(again)
  assert.deepEqual(hosts.find('a.test', 5000), ['192.0.2.1'])
  again()
  assert.deepEqual(hosts.find('a.test', 5001), ['192.0.2.2'])
})
