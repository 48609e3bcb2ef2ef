import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { breadthWarning, topLevelFault } from './public-suffix.ts'

suite('a top-level domain', () => {
  for (const name of ['com', 'uk', 'xn--p1ai', 'arpa', 'zip', 'ck'])
    test(`${name} is an error`, () => {
      const sentence = `"${name}" would allow every name that ends in .${name}; write the host itself, such as example.${name}`
      assert.equal(topLevelFault(name), sentence)
    })
  for (const name of ['localhost', 'internal', 'db', 'test', '__proto__', 'co.uk', 'github.io', 'example.com'])
    test(`${name} is accepted`, () => assert.equal(topLevelFault(name), undefined))
})

suite('a name that allows more than it seems to', () => {
  const shared = [
    'co.uk',
    'com.au',
    'kawasaki.jp',
    'github.io',
    'workers.dev',
    's3.amazonaws.com',
    'amazonaws.com',
    'run.app',
  ]
  for (const name of shared)
    test(`${name} has a warning: anyone can register a name below it`, () =>
      assert.equal(breadthWarning(name), `"${name}" allows every name below it, and anyone can register one`))
  for (const name of ['localhost', 'db', '__proto__', 'constructor'])
    test(`${name} has a warning: it is a single label`, () =>
      assert.equal(
        breadthWarning(name),
        `"${name}" has a single label; it also allows every name that ends in .${name}`,
      ))
  for (const name of [
    'bbc.co.uk',
    'me.github.io',
    'co.example.uk',
    'uk.co.test',
    'github.com',
    'api.example.com',
    '_a.example.org',
  ])
    test(`${name} has no warning`, () => assert.equal(breadthWarning(name), undefined))

  test('has one message, whatever the name', () => {
    const label = fc.stringMatching(/^[a-z0-9_-]{1,20}$/)
    fc.assert(
      fc.property(fc.array(label, { minLength: 1, maxLength: 5 }), (labels) => {
        const name = labels.join('.')
        for (const sentence of [topLevelFault(name), breadthWarning(name)])
          assert.ok(sentence === undefined || sentence.startsWith(`"${name}" `))
      }),
    )
  })
})

test('loads the list only with the first name that needs it', () => {
  const program = `
    import { breadthWarning, topLevelFault } from ${JSON.stringify(import.meta.resolve('./public-suffix.ts'))}
    import { createRequire } from 'node:module'
    const loaded = () => Object.keys(createRequire(import.meta.url).cache).some((path) => path.includes('tldts'))
    const steps = [() => {}, () => topLevelFault('example.com'), () => breadthWarning('localhost'), () => breadthWarning('example.com')]
    console.log(steps.map((step) => (step(), loaded())).join())`
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' })
  assert.equal(stdout, 'false,false,false,true\n')
})
