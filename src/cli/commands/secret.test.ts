import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, suite, test } from 'node:test'
import { type Cli, demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { secretContext } from '../../core/secrets/secrets.ts'
import { systemClock } from '../../lib/clock.ts'
import { sourceOf } from '../../lib/settings.ts'
import { secretsResource } from '../../resources/secrets.ts'
import { findInstance, openInstance } from '../instance/instance.ts'

/** Decrypts a stored secret, which no command shows. */
async function readSecret(cli: Cli, scope_kind: 'folder' | 'user', owner: string, key: string): Promise<string> {
  const environment = sourceOf('the environment', new Map([['SVC_DATA_DIR', cli.dir]]))
  const host = await openInstance(await findInstance('demo', environment), { clock: systemClock })
  try {
    const row = await host.engine.read((tx) => secretsResource.table.find(tx, { scope_kind, owner, key }))
    if (!row) throw new Error('there is none')
    return host.keyring.open(row.value, secretContext({ scope_kind, owner, key })).toString()
  } finally {
    await host.close()
  }
}

onEveryEngine('svc secret and user-secret', (engine) => {
  for (const [noun, scope, owner] of [
    ['secret', 'folder', 'main'],
    ['user-secret', 'user', 'github:42'],
  ] as const) {
    test(`${noun}: sets, lists and deletes secrets and never prints a value`, async (t) => {
      const cli = await demoCliOn(t, engine)
      const set = await cli.run(`${noun} demo set ${owner} API_KEY --value -`, { stdin: 's3cret\n' })
      assert.deepEqual(set, { code: 0, stdout: `set API_KEY of ${scope} ${owner}\n`, stderr: '' })
      assert.equal(await readSecret(cli, scope, owner, 'API_KEY'), 's3cret')
      assert.match(await cli.ok(`${noun} demo list ${owner}`), /^KEY\tCREATED_AT\nAPI_KEY\t\S+Z\n$/)
      assert.doesNotMatch(await cli.ok(`${noun} demo list ${owner} --json`), /value|s3cret/)
      assert.equal(await cli.ok(`${noun} demo delete ${owner} API_KEY`), `deleted API_KEY of ${scope} ${owner}\n`)
      const again = await cli.run(`${noun} demo delete ${owner} API_KEY`)
      assert.deepEqual([again.code, again.stderr], [1, `svc: there is no secret API_KEY of ${owner}\n`])
      assert.equal((await cli.run(`${noun} demo list ${owner}`)).stderr, `no secrets of ${scope} ${owner}\n`)
    })
  }
})

suite('the value of a secret', () => {
  const values: Record<string, [stdin: string, stored: string]> = {
    'keeps its lines': ['a\nb', 'a\nb'],
    'loses a final line break': ['key\r\n', 'key'],
    'loses only one line break': ['key\n\n', 'key\n'],
    'keeps blanks and a byte order mark': ['\ufeff a ', '\ufeff a '],
  }
  for (const [what, [stdin, stored]] of Object.entries(values))
    test(`from stdin ${what}`, async (t) => {
      const cli = await demoCli(t)
      await cli.ok('secret demo set main K --value -', { stdin })
      assert.equal(await readSecret(cli, 'folder', 'main', 'K'), stored)
    })

  test('on the command line is stored unchanged, with a warning that does not repeat it', async (t) => {
    const cli = await demoCli(t)
    const { code, stdout, stderr } = await cli.run(['secret', 'demo', 'set', 'main', 'K', '-v', '-s3 cret\n'])
    assert.equal(code, 0)
    assert.match(stderr, /^warning: a value on the command line may stay in the shell history; --value -/)
    assert.doesNotMatch(stdout + stderr, /s3/)
    assert.equal(await readSecret(cli, 'folder', 'main', 'K'), '-s3 cret\n')
  })

  for (const [line, key] of [
    ['secret demo set main', 'K'],
    ['user-secret demo set github:42', 'K'],
  ])
    test(`is prompted for on a terminal: ${line}`, async (t) => {
      const cli = await demoCli(t)
      const questions: string[] = []
      const ask = async (question: string): Promise<string> => {
        questions.push(question)
        return ' typed s3cret'
      }
      const { code, stdout, stderr } = await cli.run(`${line} ${key}`, { ask })
      assert.deepEqual([code, stderr, questions], [0, '', ['value of K (not shown)']])
      assert.doesNotMatch(stdout, /s3cret/)
      const [scope, owner] = line?.startsWith('user') ? (['user', 'github:42'] as const) : (['folder', 'main'] as const)
      assert.equal(await readSecret(cli, scope, owner, 'K'), ' typed s3cret')
    })

  test('is prompted for only if all arguments are valid, and must not be empty', async (t) => {
    const cli = await demoCli(t)
    let prompts = 0
    const ask = async (): Promise<string> => {
      prompts++
      return ''
    }
    for (const line of ['secret demo set main k', 'secret demoo set main K'])
      assert.equal((await cli.run(line, { ask })).code, 1)
    assert.equal(prompts, 0)
    const { code, stderr } = await cli.run('secret demo set main K', { ask })
    assert.deepEqual([code, stderr, prompts], [1, 'svc: value must not be empty\n', 1])
  })

  test('is required without a terminal, and the hint says how to pass it', async (t) => {
    const cli = await demoCli(t)
    for (const line of ['secret demo set main K', 'user-secret demo set github:42 K']) {
      const { code, stderr } = await cli.run(line)
      assert.equal(code, 1)
      assert.equal(
        stderr,
        'svc: --value is missing, and stdin is not a terminal\nhint: --value - reads it from stdin\n',
      )
    }
  })

  test('is not repeated if it was typed without its flag', async (t) => {
    const cli = await demoCli(t)
    for (const line of ['main K s3cret', 'main K --valu=s3cret', 'main K s3cret --value x', 'main k --value s3cret']) {
      const { code, stdout, stderr } = await cli.run(`secret demo set ${line}`)
      assert.equal(code, 1, line)
      assert.doesNotMatch(stdout + stderr, /s3cret/, line)
    }
    assert.equal(await cli.ok('secret demo list main'), '')
    const unknown = await cli.run('secret demo list nope')
    assert.deepEqual([unknown.code, unknown.stdout, unknown.stderr], [1, '', 'svc: there is no group nope\n'])
  })
})

suite('svc secret set refuses', () => {
  const demo = demoCli({ after })
  const cases: Record<string, [string[], string | Uint8Array, RegExp]> = {
    'a lower-case key': [['main', 'a', '--value', '-'], 'x', /key must match \^\[A-Z\]\[A-Z0-9_\]\*\$/],
    'a key with a dash': [['main', 'A-B', '--value', '-'], 'x', /key must match/],
    'a key that starts with a digit': [['main', '1A', '--value', '-'], 'x', /key must match/],
    'an empty key': [['main', '', '--value', '-'], 'x', /key must match/],
    'a huge key': [['main', 'K'.repeat(10_000), '--value', '-'], 'x', /key is longer/],
    'a NUL in the value': [['main', 'K', '--value', '-'], 'x\u0000--bind', /value must not contain control characters/],
    'an empty value': [['main', 'K', '--value='], '', /value must not be empty/],
    'nothing on stdin': [['main', 'K', '--value', '-'], '', /value must not be empty/],
    'a huge value': [['main', 'K', '--value', '-'], 'x'.repeat(2 ** 20), /longer than 65536 characters/],
    'more than the limit of stdin': [
      ['main', 'K', '--value', '-'],
      'x'.repeat(2 ** 20 + 1),
      /stdin is larger than 1048576 bytes/,
    ],
    'bytes that are not text': [['main', 'K', '--value', '-'], Uint8Array.of(0xff, 0xfe), /stdin is not UTF-8 text/],
    'a folder that is not a group': [['nobody', 'K', '--value', '-'], 'x', /there is no group nobody/],
  }
  for (const [what, [words, stdin, sentence]] of Object.entries(cases))
    test(what, async () => {
      const cli = await demo
      const { code, stderr } = await cli.run(['secret', 'demo', 'set', ...words], { stdin })
      assert.equal(code, 1)
      assert.match(stderr, sentence)
      assert.ok(stderr.length < 400, 'nothing huge is repeated')
    })

  test('an invalid person', async () => {
    const { code, stderr } = await (await demo).run('user-secret demo set alice K --value -', { stdin: 'x' })
    assert.deepEqual([code, stderr], [1, 'svc: owner must look like provider:id, such as github:42\n'])
  })

  test('every secret without SECRETS_KEY', async (t) => {
    const cli = await demoCli(t)
    const env = join(cli.root, '.env')
    writeFileSync(env, readFileSync(env, 'utf8').replace(/^SECRETS_KEY=.*$/m, ''))
    const { code, stderr } = await cli.run('secret demo set main K --value -', { stdin: 'x' })
    assert.equal(code, 1)
    assert.match(stderr, /SECRETS_KEY is not set\nhint: add SECRETS_KEY=/)
    assert.equal(await cli.ok('secret demo list main'), '')
  })
})

test('lists secrets without decrypting them, even with a changed key', async (t) => {
  const cli = await demoCli(t)
  await cli.ok('secret demo set main K --value -', { stdin: 'x' })
  const env = join(cli.root, '.env')
  writeFileSync(env, readFileSync(env, 'utf8').replace(/^SECRETS_KEY=.*$/m, 'SECRETS_KEY=another'))
  assert.match(await cli.ok('secret demo list main'), /^KEY\tCREATED_AT\nK\t/)
})
