import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { type Cli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { run } from '../../../test/support/sql.ts'
import { recordInbound } from '../../core/messages/inbound.ts'
import { type InboxState, inbox } from '../../core/messages/inbox.ts'
import { type OpenHost, openHost } from '../../daemons/process/host.ts'
import { systemClock, systemRandom, timestamp } from '../../lib/clock.ts'
import { parseDotenv } from '../../lib/text/dotenv.ts'

async function openDemo({ root }: Cli): Promise<OpenHost> {
  const env = parseDotenv(readFileSync(join(root, '.env'), 'utf8'), '.env')
  const url = env.get('DATABASE_URL')
  const store = url ? { url } : { path: join(root, 'store', 'svc.db') }
  return openHost({ instance: 'demo', store, webBase: 'http://localhost' })
}

async function changeId(cli: Cli, from: string, to: string): Promise<void> {
  const host = await openDemo(cli)
  await host.engine.transaction(async (tx) => {
    for (const table of ['messages', 'inbox']) await run(tx, `update ${table} set id = $2 where id = $1`, [from, to])
  })
  await host.close()
}

/** Adds messages to the store of `demo` and returns their ids. */
async function addMessages(
  cli: Cli,
  ...all: readonly { text: string; state?: InboxState; reason?: string; folder?: string }[]
): Promise<string[]> {
  const host = await openDemo(cli)
  const context = { dialect: host.engine.dialect, clock: systemClock, random: systemRandom }
  const ids: string[] = []
  try {
    for (const { text, state, reason, folder = 'main' } of all)
      await host.engine.transaction(async (tx) => {
        const { id, seq } = await recordInbound(tx, context, {
          jid: 'telegram:1',
          sender: 'telegram:7',
          content: text,
          reach: 'all',
          ...(state ? {} : { target_folder: folder }),
        })
        ids.push(id)
        if (!state) return
        const conversation = { jid: 'telegram:1', topic: '', chat_topic: '', sender: 'telegram:7', verb: 'message' }
        const updated_at = timestamp(Date.now())
        await inbox.insert(tx, { message_seq: seq, id, folder, ...conversation, state, reason, updated_at })
        await run(tx, 'update routing set last_seq = $1 where id = 1', [seq])
      })
  } finally {
    await host.close()
  }
  return ids
}

async function createWithMessages(t: TestContext, engine: 'sqlite' | 'postgres'): Promise<{ cli: Cli; ids: string[] }> {
  const cli = await demoCliOn(t, engine)
  const ids = await addMessages(
    cli,
    { text: 'what is\nnew?', state: 'answered' },
    { text: 'and now?', state: 'failed', reason: 'the model is asleep' },
    { text: 'hello' },
  )
  return { cli, ids }
}

onEveryEngine('svc messages', (engine) => {
  test('lists the state of each message, newest last, on one line each', async (t) => {
    const { cli } = await createWithMessages(t, engine)
    const lines = (await cli.ok('messages demo')).trimEnd().split('\n')
    assert.deepEqual(
      lines.map((line) => line.split('\t').slice(2)),
      [
        ['STATE', 'FOLDER', 'CHAT', 'SENDER', 'TEXT', 'REASON'],
        ['answered', 'main', 'telegram:1', 'telegram:7', 'what is new?', '-'],
        ['failed', 'main', 'telegram:1', 'telegram:7', 'and now?', 'the model is asleep'],
        ['waiting', 'main', 'telegram:1', 'telegram:7', 'hello', '-'],
      ],
    )
    assert.match(await cli.ok('messages demo main --state failed'), /and now\?\tthe model is asleep\n$/)
    assert.equal((await cli.ok('messages demo --limit 1')).trimEnd().split('\n').length, 2)
    const rows: { id: string; state: string }[] = JSON.parse(await cli.ok('messages demo --json'))
    assert.deepEqual(
      rows.map(({ state }) => state),
      ['answered', 'failed', 'waiting'],
    )
  })

  test('shows one message in full and reports an unknown id', async (t) => {
    const { cli, ids } = await createWithMessages(t, engine)
    const shown = await cli.ok(['messages', 'demo', 'show', ids[1] ?? ''])
    assert.match(shown, /^state: failed$/m)
    assert.match(shown, /^reason: the model is asleep$/m)
    assert.match(shown, /^text: and now\?$/m)
    assert.equal(JSON.parse(await cli.ok(['messages', 'demo', 'show', ids[2] ?? '', '--json'])).state, 'waiting')
    const { code, stderr } = await cli.run('messages demo show absent')
    assert.deepEqual([code, stderr], [1, 'svc: there is no message whose id starts with absent\n'])
  })

  test('retries a failed message, once', async (t) => {
    const { cli, ids } = await createWithMessages(t, engine)
    const [, failed = ''] = ids
    assert.equal((await cli.run(`messages demo retry ${failed}`)).stderr, `message ${failed} waits for main\n`)
    assert.match(
      await cli.ok(`messages demo show ${failed}`),
      /^state: waiting$[\s\S]*^retries: 1$[\s\S]*failed: the model is asleep$/m,
    )
    const { code, stderr } = await cli.run(`messages demo retry ${failed}`)
    assert.deepEqual(
      [code, stderr],
      [1, `svc: message ${failed} is waiting\nhint: only messages that are failed or refused can be retried\n`],
    )
  })

  test('searches messages by text and explains a wrong query', async (t) => {
    const { cli } = await createWithMessages(t, engine)
    assert.match(
      await cli.ok(['messages', 'demo', 'search', 'now']),
      /\tfailed\tmain\ttelegram:1\ttelegram:7\tand «now»\?\n$/,
    )
    assert.equal((await cli.run(['messages', 'demo', 'search', 'nothing'])).stderr, 'no message matches\n')
    const { code, stderr } = await cli.run(['messages', 'demo', 'search', '"now'])
    assert.equal(code, 1)
    assert.match(stderr, /^svc: /)
  })

  test('lists a unique prefix of each id, routed or not, and show accepts it', async (t) => {
    const { cli, ids } = await createWithMessages(t, engine)
    const shorts = (await cli.ok('messages demo'))
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((line) => line.split('\t')[1] ?? '')
    for (const [at, short] of shorts.entries()) {
      assert.ok(short.length >= 13 && ids[at]?.startsWith(short), short)
      assert.match(await cli.ok(`messages demo show ${short}`), new RegExp(`^id: ${ids[at]}\n`))
    }
    assert.equal(new Set(shorts).size, ids.length)
    const { code, stderr } = await cli.run(`messages demo show ${ids[0]?.slice(0, 6)}`)
    assert.equal(code, 1)
    assert.equal(
      stderr,
      `svc: several message ids start with ${ids[0]?.slice(0, 6)}: ${ids.toSorted().join(', ')}\nhint: type more of the id\n`,
    )
  })

  test('distinguishes two ids that differ only in their last character', async (t) => {
    const { cli } = await createWithMessages(t, engine)
    const twins = await addMessages(cli, { text: 'one', state: 'silent' }, { text: 'two', state: 'silent' })
    const [one = '', two = ''] = twins
    const twin = `${one.slice(0, -1)}${one.endsWith('0') ? '1' : '0'}`
    await changeId(cli, two, twin)
    const rows: { id: string; short_id: string }[] = JSON.parse(await cli.ok('messages demo --limit 2 --json'))
    assert.deepEqual(
      rows.map(({ id, short_id }) => [id, short_id]),
      [
        [one, one],
        [twin, twin],
      ],
    )
    assert.match(await cli.ok(`messages demo show ${twin}`), /^text: two$/m)
    assert.equal((await cli.run(`messages demo show ${one.slice(0, -1)}`)).code, 1)
  })

  test('--follow lists messages until it is stopped, with --json one per line', async (t) => {
    const { cli } = await createWithMessages(t, engine)
    const lines = (await cli.ok('messages demo --follow --json')).trimEnd().split('\n')
    assert.deepEqual(
      lines.map((line) => JSON.parse(line).text),
      ['what is\nnew?', 'and now?', 'hello'],
    )
  })
})

suite('svc messages', () => {
  test('refuses unknown states and folders, invalid limits and missing arguments', async (t) => {
    const cli = await demoCliOn(t, 'sqlite')
    const refusals: Record<string, RegExp> = {
      'messages demo --state lost': /state must be one of waiting, running, delegated, answered, silent, failed, /,
      'messages demo nowhere': /there is no group nowhere/,
      'messages demo --limit many': /--limit must be a whole number/,
      'messages demo show': /<id> is missing/,
      messages: /<instance> is missing/,
      'messages demo main twice': /too many arguments/,
    }
    for (const [line, sentence] of Object.entries(refusals)) {
      const { code, stderr } = await cli.run(line)
      assert.deepEqual([line, code], [line, 1])
      assert.match(stderr, sentence)
    }
  })

  test('reports an empty list on stderr', async (t) => {
    const cli = await demoCliOn(t, 'sqlite')
    assert.deepEqual(await cli.run('messages demo main --state failed'), {
      code: 0,
      stdout: '',
      stderr: 'no messages of main in state failed\n',
    })
  })

  test('truncates long texts and escapes control characters on a terminal', async (t) => {
    const cli = await demoCliOn(t, 'sqlite')
    await addMessages(cli, { text: `\u001b[31m${'long '.repeat(200)}`, state: 'silent' })
    const shown = await cli.ok('messages demo', { terminal: true })
    assert.ok(!shown.includes('\u001b'))
    for (const line of shown.trimEnd().split('\n')) assert.ok([...line].length < 150)
  })
})
