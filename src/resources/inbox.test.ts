import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { openConversationHost } from '../../test/support/conversation-host.ts'
import { isRefusal, onEveryEngine } from '../../test/support/host.ts'
import { openSearchHost, ROOM } from '../../test/support/search-host.ts'
import { groupDirs } from '../core/layout.ts'
import type { SearchIndex } from '../core/search/search-index.ts'
import { turnLogFile } from '../core/turns/turn-log-files.ts'
import { callVerb } from '../registry/call.ts'
import { inboxResource } from './inbox.ts'
import { routesResource } from './routes.ts'

const { details, log, retry, search } = inboxResource.verbs

const withSession = (sub: string) => ({ kind: 'person', sub, session: 'a-session' }) as const

onEveryEngine('the story of a message', (engine) => {
  test('has its entry, routing, attempts, calls, frames, answers and costs', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    const id = await on.ask('how much?')
    const first = (await on.mustClaim()).turn
    await on.end(first, { outcome: 'failed', reason: 'the model is asleep' })
    await on.cli.call(retry, { id })
    const { turn } = await on.mustClaim()
    await callVerb(
      {
        host: on.host,
        caller: { kind: 'agent', folder: 'main' },
        face: 'tool',
        turn: { id: turn.id, fence: turn.fence },
        reach: 'all',
      },
      routesResource.verbs.create,
      { seq: 0, match: 'room=1', target: 'main' },
    )
    await on.submit('main', {
      turn_id: turn.id,
      result: 'three cents',
      models: [{ model: 'm', input_tokens: 10, output_tokens: 20, cost_cents: 3 }],
    })
    await on.end(turn)
    const story = await on.cli.call(details, { id })
    assert.ok(story.direction === 'in')
    assert.deepEqual([story.state, story.text, story.entry?.kind], ['answered', 'how much?', 'link'])
    assert.equal(story.routing?.sentence, 'Its link leads to the folder main.')
    assert.deepEqual(
      story.retries.map(({ number, reason, turn_id }) => [number, reason, turn_id]),
      [[1, 'the model is asleep', first.id]],
    )
    assert.deepEqual(
      story.tool_calls.map(({ action, outcome, params_summary }) => [action, outcome, params_summary]),
      [['routes.create', 'ok', '{"seq":0,"match":"room=1","target":"main"}']],
    )
    assert.deepEqual(
      story.frames.map(({ text }) => text),
      ['three cents'],
    )
    assert.deepEqual(
      story.answers.map(({ state, text }) => [state, text]),
      [['sent', 'three cents']],
    )
    assert.deepEqual(
      story.costs.map(({ cost_cents }) => cost_cents),
      [3],
    )
    const [answer] = story.answers
    const sent = await on.cli.call(details, { id: answer?.id ?? '' })
    assert.ok(sent.direction === 'out')
    assert.deepEqual([sent.state, sent.chat, sent.answered.map((each) => each.id)], ['sent', 'web:main', [id]])
    await assert.rejects(on.cli.call(details, { id: 'none' }), isRefusal('not_found', 'no message with id none'))
  })

  test('explains the routing of a platform message by the routes of now', async (t) => {
    const on = await openSearchHost(t, engine)
    const { id } = await on.receive('hello', { folder: 'team' })
    const moved = await on.receive('hello', { folder: 'other' })
    const sentenceOf = async (of: string) => {
      const story = await on.cli.call(details, { id: of })
      return story.direction === 'in' ? story.routing : undefined
    }
    const routing = await sentenceOf(id)
    assert.equal(routing?.is_by_current_routes, true)
    assert.match(routing?.sentence ?? '', /^By the routes of now, route \d+ \(room=room\/1\) leads to team\.$/)
    assert.match((await sentenceOf(moved.id))?.sentence ?? '', /leads to team\. It went to other by a reply/)
  })

  test('leaves out the turn of a folder that the person does not administer', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main', 'team')
    await on.grant('github:admin', 'admin', 'main')
    const id = await on.ask('why?')
    const { turn } = await on.mustClaim()
    await on.delegate(turn)
    await on.end(turn, { outcome: 'silent' })
    const other = await on.mustClaim()
    assert.equal(other.turn.folder, 'team')
    await on.say(other.turn, 'because', { jid: 'web:main' })
    const at = on.as(withSession('github:admin'), 'dash')
    const story = await at.call(details, { id })
    assert.ok(story.direction === 'in')
    assert.deepEqual([story.is_turn_hidden, story.turn, story.answers, story.siblings], [true, undefined, [], []])
    await assert.rejects(at.call(log, { id }), isRefusal('forbidden', 'you do not administer this'))
    const own = await on.cli.call(details, { id })
    assert.ok(own.direction === 'in' && own.turn?.folder === 'team')
  })

  test('reads the end of the log of its turn, without credentials and control characters', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    const id = await on.ask('why?')
    assert.equal(await on.cli.call(log, { id }), undefined)
    const { turn } = await on.mustClaim()
    const layout = on.host.layout ?? assert.fail('no layout')
    const path = turnLogFile(groupDirs(layout, 'main'), turn.id, on.clock.now())
    mkdirSync(dirname(path), { recursive: true })
    const secret = '0123456789abcdef'.repeat(4)
    writeFileSync(path, `first\nsecond \u001b[31mred\nkey ${secret}\n`)
    const tail = await on.cli.call(log, { id, lines: 2 })
    assert.deepEqual([tail?.is_cut, tail?.lines[0]], [true, 'second [31mred'])
    assert.ok(!tail?.lines[1]?.includes(secret))
  })
})

onEveryEngine('search of messages', (engine) => {
  test('finds received and sent messages with their states, by folder and filters', async (t) => {
    const on = await openSearchHost(t, engine)
    const failed = await on.receive('the invoice is wrong', { state: 'failed' })
    await on.receive('another invoice', { folder: 'other', jid: 'fake:room/2' })
    const sent = await on.say('your invoice')
    const cli = { host: on.host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
    const find = (input: object) => callVerb(cli, search, { query: 'invoice', ...input })
    assert.equal((await find({})).messages.length, 3)
    const [only, ...more] = (await find({ folder: 'team', state: 'failed' })).messages
    assert.deepEqual([only?.id, only?.can_retry, more], [failed.id, true, []])
    assert.match(only?.snippet ?? '', /«invoice»/)
    assert.deepEqual(
      (await find({ direction: 'out' })).messages.map(({ id }) => id),
      [sent.id],
    )
    assert.equal((await find({ chat: ROOM })).messages.length, 2)
    assert.equal((await find({ query: 'nothing' })).messages.length, 0)
    await assert.rejects(
      find({ query: 'in-voice' }),
      (error) =>
        isRefusal('invalid', /./)(error) &&
        /put words with punctuation in quotes/.test(Reflect.get(Object(error), 'hint')),
    )
    const nested = `${'('.repeat(500)}a${')'.repeat(500)}`
    for (const query of ['"', 'NEAR(', '*', 'in-voice', 'author:x', 'a AND', `'; drop table documents`, nested])
      await assert.rejects(find({ query }), (error) => {
        assert.ok(isRefusal('invalid', /^the search text has a syntax error$/)(error))
        assert.match(String(Reflect.get(Object(error), 'hint')), /in quotes/)
        return true
      })
    await assert.rejects(find({ query: 'a '.repeat(33) }), isRefusal('invalid', 'query has more than 32 words'))
    await assert.rejects(
      callVerb({ ...cli, host: withoutSearch(on.host) }, search, { query: 'x' }),
      isRefusal('unavailable', 'this process has no search index'),
    )
  })

  test('finds for administrators only messages of their folders', async (t) => {
    const on = await openSearchHost(t, engine)
    await on.grant('github:admin', 'admin', 'team/**')
    await on.grant('github:admin', '*', 'team/sub', 'deny')
    const own = await on.receive('one secret')
    await on.receive('two secret', { folder: 'team/sub' })
    await on.receive('three secret', { folder: 'other', jid: 'fake:room/2' })
    await on.receive('four secret', { folder: undefined })
    const find = async (sub: string, input: object = {}) =>
      (
        await callVerb({ host: on.host, caller: withSession(sub), face: 'dash' }, search, { query: 'secret', ...input })
      ).messages.map(({ id }) => id)
    assert.deepEqual(await find('github:admin'), [own.id])
    // The index leaves out hidden folders, so that they do not use up its hits; and its hits are checked again.
    const asked: (readonly string[] | undefined)[] = []
    const index: SearchIndex = {
      ...{ follow: () => {}, close: async () => {} },
      search: ({ query, limit, except }) => {
        asked.push(except)
        return on.search.search({ query, limit })
      },
    }
    const caller = withSession('github:admin')
    const stale = await callVerb({ host: { ...on.host, search: index }, caller, face: 'dash' }, search, {
      query: 'secret',
    })
    assert.deepEqual(
      stale.messages.map(({ id }) => id),
      [own.id],
    )
    assert.deepEqual(asked, [['team/sub']])
    await assert.rejects(find('github:admin', { folder: 'other' }), isRefusal('forbidden', 'you do not administer'))
    await assert.rejects(find('github:stranger'), isRefusal('forbidden', 'you do not administer'))
    await on.operator('github:op')
    assert.equal((await find('github:op')).length, 4)
  })
})

function withoutSearch<T extends { search?: unknown }>({ search: _, ...host }: T): Omit<T, 'search'> {
  return host
}
