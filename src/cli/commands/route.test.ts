import assert from 'node:assert/strict'
import { after, suite, test } from 'node:test'
import { demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'

onEveryEngine('svc route', (engine) => {
  test('lists routes in matching order, adds one and removes one by its id', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.deepEqual(await cli.run('route demo list'), { code: 0, stdout: '', stderr: 'no routes\n' })
    await cli.ok('group demo add sandbox:lobby team')
    const added = await cli.ok(['route', 'demo', 'add', 'platform=sandbox room=lobby', 'main', '--seq', '-1'])
    const id = /^added route (\d+): platform=sandbox room=lobby -> main \(seq -1\)\n$/.exec(added)?.[1]
    assert.ok(id, added)
    assert.match(
      await cli.ok(['route', 'demo', 'add', '', 'main#observe', '-s', '9']),
      /\(everything\) -> main#observe/,
    )
    const lines = (await cli.ok('route demo list')).trimEnd().split('\n')
    assert.deepEqual(
      lines.map((line) => line.split('\t').slice(1)),
      [
        ['SEQ', 'MATCH', 'TARGET'],
        ['-1', 'platform=sandbox room=lobby', 'main'],
        ['0', 'room=lobby', 'team'],
        ['9', '(everything)', 'main#observe'],
      ],
    )
    const seqs = JSON.parse(await cli.ok('route demo list --json')).map(({ seq }: { seq: number }) => seq)
    assert.deepEqual(seqs, [-1, 0, 9])
    assert.equal(
      await cli.ok(`route demo rm ${id}`),
      `removed route ${id}: platform=sandbox room=lobby -> main (seq -1)\n`,
    )
    const again = await cli.run(`route demo rm ${id}`)
    assert.deepEqual([again.code, again.stderr], [1, `svc: there is no route ${id}\n`])
  })

  test('moves a route among those of its folder', async (t) => {
    const cli = await demoCliOn(t, engine)
    for (const room of ['a', 'b']) await cli.ok(['route', 'demo', 'add', `room=${room}`, 'main'])
    const read = async (): Promise<{ id: number; match: string }[]> =>
      JSON.parse(await cli.ok('route demo list --json'))
    const [, second] = await read()
    assert.equal(await cli.ok(`route demo move ${second?.id} up`), `moved route ${second?.id} up\n`)
    assert.deepEqual(
      (await read()).map(({ match }) => match),
      ['room=b', 'room=a'],
    )
    assert.match((await cli.run(`route demo move ${second?.id} left`)).stderr, /"left" is neither up nor down/)
  })

  test('the command that doctor suggests removes a route to a missing group', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.equal(
      (await cli.run('route demo add room=x gone')).stderr,
      'warning: there is no group gone yet: messages that match this route reach no agent\n',
    )
    const { stdout } = await cli.run('doctor demo')
    const [, next = ''] = /✗ routes: .* leads to gone, which is not a group\n {4}→ svc (.*)\n/.exec(stdout) ?? []
    assert.match(await cli.ok(next), /^removed route \d+: room=x -> gone/)
    assert.match((await cli.run('doctor demo')).stdout, /✓ routes: /)
  })
})

suite('svc route refuses', () => {
  const demo = demoCli({ after })
  const cases: Record<string, [string[], RegExp]> = {
    'a match without an equals sign': [['add', 'lobby', 'main'], /match has "lobby", which is not key=glob/],
    'an unknown key': [['add', 'rom=x', 'main'], /match has the unknown key "rom"/],
    'a target that is not a folder': [['add', 'room=x', '../x'], /target must be a folder/],
    'a seq that is not a number': [['add', 'room=x', 'main', '--seq', 'first'], /--seq must be a whole number/],
    'a seq that is out of range': [['add', 'room=x', 'main', '--seq', '1000001'], /seq must be/],
    'an id that is not a number': [['rm', 'x'], /id must be a whole number/],
  }
  for (const [what, [words, sentence]] of Object.entries(cases))
    test(what, async () => {
      const cli = await demo
      const { code, stdout, stderr } = await cli.run(['route', 'demo', ...words])
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr, sentence)
      assert.equal(await cli.ok('route demo list'), '')
    })

  test('the same route twice', async (t) => {
    const cli = await demoCli(t)
    await cli.ok('route demo add room=x main')
    const { code, stderr } = await cli.run('route demo add room=x main')
    assert.deepEqual([code, stderr], [1, 'svc: this route exists already\n'])
  })
})

test('svc route ack sets and removes the reaction of a route, of at most 64 characters', async (t) => {
  const cli = await demoCli(t)
  await cli.ok('route demo add room=lobby main --ack 👀')
  const [route] = JSON.parse(await cli.ok('route demo list --json')).filter(
    ({ match }: { match: string }) => match === 'room=lobby',
  )
  assert.equal(route.ack_reaction, '👀')
  assert.equal(
    await cli.ok(`route demo ack ${route.id} ${'x'.repeat(64)}`),
    `route ${route.id} reacts with ${'x'.repeat(64)}\n`,
  )
  const long = await cli.run(`route demo ack ${route.id} ${'x'.repeat(65)}`)
  assert.match(long.stderr, /^svc: ack_reaction must be at most 64 characters without control characters/)
  assert.equal(await cli.ok(`route demo ack ${route.id}`), `route ${route.id} does not react\n`)
})
