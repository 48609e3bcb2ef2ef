import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import type { TypingState } from '../../core/delivery/channel.ts'
import { setTyping } from '../../core/delivery/sandbox-rooms.ts'
import { systemClock } from '../../lib/clock.ts'
import { sourceOf } from '../../lib/settings.ts'
import { findInstance, openInstance } from '../instance/instance.ts'

onEveryEngine('svc sandbox', (engine) => {
  test('posts messages and reactions and shows the room', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.equal(
      await cli.ok(['sandbox', 'demo', 'say', 'lobby', 'mia', 'hello\nall']),
      'mia posted s1 in sandbox:lobby\n',
    )
    await cli.ok('sandbox demo say sandbox:lobby noa yes --reply-to s1 --topic news --mention')
    await cli.ok('sandbox demo react lobby mia s2 👍')
    const shown = await cli.ok('sandbox demo show lobby')
    assert.match(
      shown,
      /^s1 {2}\d\d:\d\d:\d\d {2}mia: hello\n {4}all\ns2 {2}\S+ {2}noa: yes {2}\[#news\] \[↩ s1\] \[👍 mia\]\n$/,
    )
    assert.match(await cli.ok('sandbox demo rooms'), /^ROOM\tMESSAGES\tLAST_AT\nsandbox:lobby\t2\t\S+Z\n$/)
    assert.equal((await cli.run('sandbox demo show attic')).stderr, 'no messages in sandbox:attic\n')
  })

  test('shows in which topics of a room the agent is typing', async (t) => {
    const cli = await demoCliOn(t, engine)
    const typing = async (state: Omit<TypingState, 'jid'>): Promise<string> => {
      const environment = sourceOf('the environment', new Map([['SVC_DATA_DIR', cli.dir]]))
      const host = await openInstance(await findInstance('demo', environment), { clock: systemClock })
      await host.engine.transaction((tx) => setTyping(tx, { jid: 'sandbox:lobby', ...state }))
      await host.close()
      return (await cli.run('sandbox demo show lobby')).stderr.replace('no messages in sandbox:lobby\n', '')
    }
    assert.equal(await typing({ threadId: 'news', on: true }), '… the agent is typing in #news\n')
    assert.equal(
      await typing({ threadId: 'he\nlp', on: true }),
      '… the agent is typing in #news\n… the agent is typing in #he\\nlp\n',
    )
    assert.equal(await typing({ threadId: 'news', on: false }), '… the agent is typing in #he\\nlp\n')
    assert.equal(await typing({ on: true }), '… the agent is typing\n… the agent is typing in #he\\nlp\n')
  })

  test('edits and deletes messages and takes reactions back', async (t) => {
    const cli = await demoCliOn(t, engine)
    for (const text of ['helo', 'regret']) await cli.ok(['sandbox', 'demo', 'say', 'lobby', 'mia', text])
    for (const person of ['mia', 'noa']) await cli.ok(['sandbox', 'demo', 'react', 'lobby', person, 's1', '👍'])
    assert.equal(await cli.ok('sandbox demo edit lobby mia s1 hello'), 'mia edited s1\n')
    assert.equal(await cli.ok('sandbox demo delete lobby mia s2'), 'mia deleted s2\n')
    assert.equal(await cli.ok('sandbox demo react lobby mia s1 👍 --remove'), 'mia took 👍 back from s1\n')
    assert.match(
      await cli.ok('sandbox demo show lobby'),
      /^s1 {2}\S+ {2}mia: hello {2}\[edited\] \[👍 noa\]\ns2 {2}\S+ {2}mia: \(deleted\)\n$/,
    )
    const removed = JSON.parse(await cli.ok('sandbox demo react lobby noa s1 👍 --remove --json'))
    assert.deepEqual([removed.id, removed.reactions, typeof removed.message_id], ['s1', {}, 'string'])
    assert.doesNotMatch(await cli.ok('sandbox demo show lobby --json'), /regret|helo"/)
    const found = JSON.parse(await cli.ok('messages demo --json'))
    assert.deepEqual(
      found.map(({ text }: { text: string }) => text),
      ['hello', '', '👍', '👍'],
    )
  })

  test('changes only what the person wrote', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('sandbox demo say lobby mia hello')
    for (const [line, sentence] of [
      [['edit', 'lobby', 'noa', 's1', 'x'], /the message s1 is not from noa\n.*only mia can edit it/],
      [['delete', 'lobby', 'noa', 's1'], /the message s1 is not from noa\n.*only mia can delete it/],
      [['edit', 'lobby', 'mia', 's1', ' '], /the text is empty\n.*or delete the message/],
      [['edit', 'lobby', 'mia', 's2', 'x'], /there is no message s2 in sandbox:lobby/],
      [['react', 'lobby', 'mia', 's1', '👍', '--remove'], /mia has not reacted to s1 with 👍/],
      [['react', 'lobby', 'm i', 's1', '👍', '--remove'], /has not reacted|a person is/],
    ] as const) {
      const { code, stderr } = await cli.run(['sandbox', 'demo', ...line])
      assert.equal(code, 1)
      assert.match(stderr, sentence)
    }
    assert.match(await cli.ok('sandbox demo show lobby'), /mia: hello\n$/)
    await cli.ok('sandbox demo delete lobby mia s1')
    for (const line of ['edit lobby mia s1 x', 'delete lobby mia s1'])
      assert.match((await cli.run(`sandbox demo ${line}`)).stderr, /the message s1 was deleted/)
  })

  test('prints JSON with --json', async (t) => {
    const cli = await demoCliOn(t, engine)
    const said = JSON.parse(await cli.ok('sandbox demo say lobby mia hello --json'))
    assert.deepEqual([said.id, said.room, typeof said.message_id], ['s1', 'sandbox:lobby', 'string'])
    const [entry] = JSON.parse(await cli.ok('sandbox demo show lobby --json'))
    assert.deepEqual([entry.author, entry.content, entry.is_from_me, entry.reactions], ['mia', 'hello', false, {}])
    assert.equal(JSON.parse(await cli.ok('sandbox demo rooms --json'))[0].messages, 1)
  })
})

suite('svc sandbox refuses', () => {
  const cases: Record<string, [line: string[], sentence: RegExp]> = {
    'an invalid room': [['say', 'a b', 'mia', 'x'], /a room is 1 to 64 letters/],
    'an invalid person': [['say', 'lobby', 'm i', 'x'], /a person is 1 to 64 letters/],
    'an empty text': [['say', 'lobby', 'mia', ' '], /the text is empty/],
    'a reply to an unknown message': [
      ['say', 'lobby', 'mia', 'x', '--reply-to', 's9'],
      /there is no message s9 in sandbox:lobby/,
    ],
    'a reaction to an unknown message': [['react', 'lobby', 'mia', 'x1', '👍'], /there is no message x1/],
    'a limit that is not a number': [['show', 'lobby', '--limit', 'many'], /--limit must be a whole number/],
  }
  for (const [what, [line, sentence]] of Object.entries(cases))
    test(what, async (t) => {
      const cli = await demoCliOn(t, 'sqlite')
      const { code, stderr } = await cli.run(['sandbox', 'demo', ...line])
      assert.equal(code, 1)
      assert.match(stderr, sentence)
      assert.equal(await cli.ok('sandbox demo rooms --json'), '[]\n')
    })
})
