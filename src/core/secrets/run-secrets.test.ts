import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import type { Tx } from '../../store/engine.ts'
import type { Reach } from '../access/reach.ts'
import { type Keyring, openKeyring } from './keyring.ts'
import { type RunSecrets, readRunSecrets } from './run-secrets.ts'
import { secretContext, secrets } from './secrets.ts'

interface SecretsTest {
  /** `owner` is a folder or the sub of a person. */
  add(owner: string, key: string, plain: string, keyring?: Keyring): Promise<void>
  secretsOf(folder: string, sub?: string): Promise<Record<string, string>>
  runSecretsOf(folder: string, sub?: string, reach?: Reach): Promise<RunSecrets>
  readonly warnings: string[]
  /** Statements that the last `secretsOf` ran. */
  statements: number
}

async function open(t: TestContext, engine: EngineName): Promise<SecretsTest> {
  const on = await testHost(t, engine)
  await on.groups('team', 'team/a', 'team/a/deep', 'other')
  const { engine: store, keyring: own } = on.host
  const warnings: string[] = []
  const secretsTest: SecretsTest = {
    warnings,
    statements: 0,
    add: async (owner, key, plain, keyring = own) => {
      const name = { scope_kind: owner.includes(':') ? ('user' as const) : ('folder' as const), owner, key }
      const row = { ...name, value: keyring.seal(plain, secretContext(name)), created_at: '2026-01-01T00:00:00.000Z' }
      await store.transaction((tx) => secrets.insert(tx, row))
    },
    secretsOf: async (folder, sub) => (await secretsTest.runSecretsOf(folder, sub)).env,
    runSecretsOf: (folder, sub, reach = 'work') => {
      warnings.length = 0
      secretsTest.statements = 0
      return store.read((tx) =>
        readRunSecrets(countStatements(tx, secretsTest), own, { folder, sub, reach }, (s) => warnings.push(s)),
      )
    },
  }
  return secretsTest
}

function countStatements(tx: Tx, counts: { statements: number }): Tx {
  return {
    onCommit: (then) => tx.onCommit(then),
    executeQuery: (query) => {
      counts.statements++
      return tx.executeQuery(query)
    },
  }
}

onEveryEngine('the secrets of a run', (engine) => {
  test('come from its folder and its ancestors, the deepest first, in one query', async (t) => {
    const on = await open(t, engine)
    await on.add('team', 'GITHUB_TOKEN', 'of team')
    await on.add('team', 'SHARED', 'of team')
    await on.add('team/a', 'GITHUB_TOKEN', 'of a')
    await on.add('team/a/deep', 'BELOW', 'of deep')
    await on.add('other', 'OTHER', 'of other')
    assert.deepEqual(await on.secretsOf('team/a'), { GITHUB_TOKEN: 'of a', SHARED: 'of team' })
    assert.equal(on.statements, 1)
    assert.deepEqual(await on.secretsOf('team'), { GITHUB_TOKEN: 'of team', SHARED: 'of team' })
    assert.deepEqual(await on.secretsOf('other'), { OTHER: 'of other' })
    assert.deepEqual(on.warnings, [])
  })

  test('include those of the requesting person, which win, and of no other person', async (t) => {
    const on = await open(t, engine)
    await on.add('team', 'GITHUB_TOKEN', 'of team')
    await on.add('github:1', 'GITHUB_TOKEN', 'of one')
    await on.add('github:2', 'GITHUB_TOKEN', 'of two')
    await on.add('github:2', 'MINE', 'of two')
    assert.deepEqual(await on.secretsOf('team', 'github:1'), { GITHUB_TOKEN: 'of one' })
    assert.equal(on.statements, 1)
    assert.deepEqual(await on.secretsOf('team'), { GITHUB_TOKEN: 'of team' })
    // A folder and a person of the same name are not confused.
    assert.deepEqual(await on.secretsOf('other', 'team'), {})
  })

  test('are only model variables in visitors’ turns, and none of a person', async (t) => {
    const on = await open(t, engine)
    await on.add('team', 'GITHUB_TOKEN', 'of team')
    await on.add('team', 'ANTHROPIC_API_KEY', 'of team')
    await on.add('team/a', 'OPENAI_API_KEY', 'of a')
    await on.add('github:1', 'ANTHROPIC_API_KEY', 'of one')
    await on.add('github:1', 'MINE', 'of one')
    assert.deepEqual(await on.runSecretsOf('team/a', 'github:1', 'chat'), {
      env: { ANTHROPIC_API_KEY: 'of team', OPENAI_API_KEY: 'of a' },
      personal: new Set(),
      publicOnly: new Set(),
    })
    for (const reach of ['work', 'all'] as const)
      assert.deepEqual((await on.runSecretsOf('team/a', 'github:1', reach)).env, {
        GITHUB_TOKEN: 'of team',
        ANTHROPIC_API_KEY: 'of one',
        OPENAI_API_KEY: 'of a',
        MINE: 'of one',
      })
  })

  test('take the variables of a model endpoint from one level only', async (t) => {
    const on = await open(t, engine)
    await on.add('team', 'OPENAI_BASE_URL', 'https://team.example/v1')
    await on.add('team', 'OPENAI_API_KEY', 'of team')
    await on.add('team', 'ANTHROPIC_API_KEY', 'of team')
    await on.add('team/a', 'OPENAI_API_KEY', 'of a')
    await on.add('github:1', 'ANTHROPIC_BASE_URL', 'https://one.example')
    const ofTeam = { OPENAI_BASE_URL: 'https://team.example/v1', OPENAI_API_KEY: 'of team' }
    assert.deepEqual(await on.secretsOf('team'), { ...ofTeam, ANTHROPIC_API_KEY: 'of team' })
    assert.deepEqual(await on.secretsOf('team/a/deep'), { OPENAI_API_KEY: 'of a', ANTHROPIC_API_KEY: 'of team' })
    assert.deepEqual(await on.secretsOf('team', 'github:1'), { ...ofTeam, ANTHROPIC_BASE_URL: 'https://one.example' })
  })

  test('leave out a secret that does not open, with a warning, and do not fall back to a folder above', async (t) => {
    const on = await open(t, engine)
    await on.add('team', 'GITHUB_TOKEN', 'of team')
    await on.add('team', 'FINE', 'of team')
    await on.add('team/a', 'GITHUB_TOKEN', 'of a', openKeyring('another key'))
    assert.deepEqual(await on.secretsOf('team/a'), { FINE: 'of team' })
    assert.equal(on.warnings.length, 1)
    assert.match(on.warnings[0] ?? '', /^secret GITHUB_TOKEN of folder team\/a is not given to runs: cannot open /)
  })

  test('keep an endpoint with an unreadable part apart from every other one', async (t) => {
    const on = await open(t, engine)
    await on.add('team', 'OPENAI_BASE_URL', 'https://team.example/v1')
    await on.add('team/a', 'OPENAI_BASE_URL', 'https://a.example/v1', openKeyring('another key'))
    await on.add('team/a', 'OPENAI_API_KEY', 'of a')
    assert.deepEqual(await on.secretsOf('team/a'), { OPENAI_BASE_URL: '', OPENAI_API_KEY: 'of a' })
  })

  test('leave out a stored value with control characters, with a warning that does not repeat it', async (t) => {
    const on = await open(t, engine)
    await on.add('team', 'K', 'x\u0000--bind\u0000/\u0000/tmp/host')
    await on.add('team', 'LINES', 'a\n\tb')
    assert.deepEqual(await on.secretsOf('team'), { LINES: 'a\n\tb' })
    assert.deepEqual(on.warnings, [
      'secret K of folder team contains control characters and is not given to runs: set it again',
    ])
  })

  test('leave out the names that svc sets, and names by which a person could run programs', async (t) => {
    const on = await open(t, engine)
    await on.add('team', 'PATH', '/evil')
    await on.add('team', 'HTTPS_PROXY', 'http://evil.example')
    await on.add('team', 'NODE_OPTIONS', '--no-warnings')
    await on.add('github:1', 'LD_PRELOAD', './evil.so')
    await on.add('github:1', 'SVC_TURN', 'another')
    assert.deepEqual(await on.secretsOf('team', 'github:1'), { NODE_OPTIONS: '--no-warnings' })
    assert.deepEqual(on.warnings.toSorted(), [
      'secret HTTPS_PROXY of folder team is not given to runs: the name is reserved',
      'secret LD_PRELOAD of user github:1 is not given to runs: the name is reserved',
      'secret PATH of folder team is not given to runs: the name is reserved',
      'secret SVC_TURN of user github:1 is not given to runs: the name is reserved',
    ])
  })

  test('report which of them the requesting person set', async (t) => {
    const on = await open(t, engine)
    await on.add('team', 'SHARED', 'of team')
    await on.add('github:7', 'MINE', 'of a person')
    const { env, personal } = await on.runSecretsOf('team', 'github:7')
    assert.deepEqual(env, { MINE: 'of a person', SHARED: 'of team' })
    assert.deepEqual([...personal], ['MINE'])
    assert.equal((await on.runSecretsOf('team')).personal.size, 0)
  })
})
