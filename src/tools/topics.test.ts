// fork_topic and reset_session.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Agents, agents } from '../../test/support/agents.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { type Conversation, conversations, sessionLog } from '../core/turns/conversations.ts'
import { submitTurn } from '../core/turns/turns.ts'

const NOW = '2026-01-01T00:00:00.000Z'

async function addConversation(
  here: Agents,
  folder: string,
  topic: string,
  values: Partial<Conversation> = {},
): Promise<void> {
  const row = { folder, topic, waiting: 0, observed_seq: 0, updated_at: NOW, ...values }
  await here.host.engine.transaction((tx) => conversations.insert(tx, row))
}

const sessions = ({ host }: Agents) =>
  host.engine.read(async (tx) => {
    const rows = await conversations.list(tx)
    return rows.map(({ folder, topic, session_id = '-', parent_topic = '-', parent_session = '-', observed_seq }) =>
      [folder, topic, session_id, parent_topic, parent_session, observed_seq].join(' '),
    )
  })

onEveryEngine('topic tools', (engine) => {
  test('fork a topic from the session and the observed messages of its parent', async (t) => {
    const here = await agents(t, engine, ['main', 'team'])
    await addConversation(here, 'team', '', { session_id: 's-main', observed_seq: 7 })
    const team = await here.open('team')
    const fork = { folder: 'team', parent_topic: '', child_topic: 'plans' }
    assert.deepEqual(await team.call('fork_topic', { parent: '', child: 'plans' }), fork)
    assert.deepEqual(await sessions(here), ['team  s-main - - 7', 'team plans -  s-main 7'])
    // A fork of an unused fork starts from the same session; a topic without a session starts fresh.
    await team.call('fork_topic', { parent: 'plans', child: 'more' })
    await team.call('fork_topic', { parent: 'unknown', child: 'new' })
    assert.deepEqual((await sessions(here)).slice(1, 3), ['team more - plans s-main 7', 'team new - unknown - 0'])

    const refusal = await team.refusal('fork_topic', { parent: '', child: 'plans' })
    assert.equal(refusal, 'topic_exists\nhint: set force: true to replace the session of "plans"')
    await here.host.engine.transaction((tx) =>
      conversations.update(tx, { folder: 'team', topic: 'plans' }, { session_id: 's-plans', waiting: 2 }),
    )
    assert.deepEqual(await team.call('fork_topic', { parent: '', child: 'plans', force: true }), fork)
    assert.equal((await sessions(here)).at(-1), 'team plans -  s-main 7')
    const row = await here.host.engine.read((tx) => conversations.find(tx, { folder: 'team', topic: 'plans' }))
    assert.equal(row?.waiting, 2)
    const log = await here.host.engine.read((tx) => sessionLog.list(tx, { topic: 'plans' }))
    assert.deepEqual(
      log.map(({ event, session_id }) => [event, session_id]),
      [
        ['fork', 's-main'],
        ['fork', 's-main'],
      ],
    )
  })

  test('reset every topic of the folder, including the session of a running turn', async (t) => {
    const here = await agents(t, engine, ['main', 'team', 'team/a', 'other'])
    for (const [folder, topic] of [
      ['team', ''],
      ['team', 'plans'],
      ['team/a', ''],
    ] as const)
      await addConversation(here, folder, topic, { session_id: 's' })
    const turn = await here.begin({ id: 'turn-1', folder: 'team', topic: 'plans' })
    const { host } = here
    await host.engine.transaction((tx) =>
      conversations.update(tx, { folder: 'team', topic: 'plans' }, { turn_id: turn.id }),
    )
    const team = await here.open('team')
    assert.equal(await team.call('reset_session', { groupFolder: 'team' }), 'ok')
    const submit = (turn_id: string, session_id: string) =>
      host.engine.transaction((tx) =>
        submitTurn(tx, { ...host, dialect: host.engine.dialect }, host.rules, 'team', { turn_id, session_id }),
      )
    await submit(turn.id, 's-old')
    assert.deepEqual(await sessions(here), ['team  - - - 0', 'team plans - - - 0', 'team/a  s - - 0'])
    // The session of the next turn is stored again.
    await here.begin({ id: 'turn-2', folder: 'team', topic: 'plans' })
    await submit('turn-2', 's-new')
    assert.equal((await sessions(here))[1], 'team plans s-new - - 0')
    await team.call('reset_session', { groupFolder: 'team/a' })
    assert.equal((await sessions(here))[2], 'team/a  - - - 0')
  })
})

test('refuses to fork or replace the conversation of a visitor', async (t) => {
  const here = await agents(t, 'sqlite', ['main'])
  await addConversation(here, 'main', 'visitor:web:main#', { session_id: 's-visitor' })
  const main = await here.open('main')
  for (const fork of [
    { parent: 'visitor:web:main#', child: 'plans' },
    { parent: '', child: 'visitor:web:main#', force: true },
  ])
    assert.equal(await main.refusal('fork_topic', fork), '"visitor:web:main#" is the conversation of a visitor')
  assert.deepEqual(await sessions(here), ['main visitor:web:main# s-visitor - - 0'])
})

test('refuses invalid topics and folders', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a', 'other'])
  await addConversation(here, 'team', 'busy', { turn_id: 'turn-1' })
  await addConversation(here, 'other', '', { session_id: 's' })
  const before = await sessions(here)
  const team = await here.open('team')
  for (const [tool, args, expected] of [
    ['fork_topic', {}, 'parent is required; child is required'],
    ['fork_topic', { parent: '', child: '' }, 'child must not be empty'],
    ['fork_topic', { parent: 'a', child: 'a' }, 'parent and child must be different topics'],
    ['fork_topic', { parent: '', child: 'a\nb' }, 'child must not contain control characters'],
    ['fork_topic', { parent: '', child: 'x'.repeat(129) }, 'child is longer than 128 characters'],
    ['fork_topic', { parent: 'x'.repeat(129), child: 'a' }, 'parent is longer than 128 characters'],
    ['fork_topic', { parent: '', child: 'a', force: 'yes' }, 'force must be true or false'],
    ['fork_topic', { parent: '', child: 'busy', force: true }, 'a turn is running in the topic "busy"'],
    ['fork_topic', { parent: '', child: 'a', folder: 'other' }, 'unknown field "folder"'],
    ['reset_session', {}, 'groupFolder is required'],
    ['reset_session', { groupFolder: '' }, 'groupFolder must not be empty'],
    ['reset_session', { groupFolder: 'team/none' }, 'there is no group team/none'],
    ['reset_session', { groupFolder: 'other' }, /^reset_session: not permitted on other/],
    ['reset_session', { groupFolder: 'main' }, /^reset_session: not permitted on main/],
  ] as const) {
    const text = await team.refusal(tool, args)
    if (typeof expected === 'string') assert.equal(text, expected)
    else assert.match(text, expected)
  }
  assert.deepEqual(await sessions(here), before)
})
