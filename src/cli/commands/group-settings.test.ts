import assert from 'node:assert/strict'
import { after, suite, test } from 'node:test'
import { demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'

onEveryEngine('svc group show and set', (engine) => {
  test('set prints the old and the new value, and show and export agree', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.match(
      await cli.ok('group demo show main'),
      /^folder: main\nproduct: assistant\nname: main\n(?:\w+: .*\n)*open: true\n/,
    )
    assert.equal(await cli.ok('group demo set main runtime openai'), 'runtime of main: (not set) -> openai\n')
    assert.equal(await cli.ok('group demo set main model small'), 'model of main: (not set) -> small\n')
    assert.equal(await cli.ok('group demo set main runtime demo'), 'runtime of main: openai -> demo\n')
    assert.equal(await cli.ok('group demo set main runtime demo'), 'runtime of main is already demo; nothing changed\n')
    const row = JSON.parse(await cli.ok('group demo show main --json'))
    assert.deepEqual(JSON.parse(row.config), { model: 'small', runtime: 'demo' })
    assert.match(await cli.ok('export demo'), /config: .*model.*small.*runtime.*demo/)
    assert.match(await cli.ok('group demo show main'), /^runtime: demo\nmodel: small\ncommand: \(not set\)$/m)
  })

  test('--unset and an empty value remove a key, and the last one removes the config', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo set main runtime claude')
    await cli.ok(['group', 'demo', 'set', 'main', 'command', './agent.py --brief'])
    assert.equal(await cli.ok('group demo set main runtime --unset'), 'runtime of main: claude -> (not set)\n')
    assert.equal(
      await cli.ok(['group', 'demo', 'set', 'main', 'command', '']),
      'command of main: ./agent.py --brief -> (not set)\n',
    )
    assert.equal(JSON.parse(await cli.ok('group demo show main --json')).config, undefined)
    assert.equal(
      await cli.ok('group demo set main model --unset'),
      'model of main is already (not set); nothing changed\n',
    )
  })

  test('sets each key with its type', async (t) => {
    const cli = await demoCliOn(t, engine)
    for (const [key, value] of [
      ['name', 'The Desk'],
      ['open', 'false'],
      ['observe_window_messages', '0'],
      ['observe_window_chars', '1000000'],
      ['max_children', '3'],
      ['command', '["./agent.py","--brief"]'],
      ['permission_mode', 'plan'],
      ['tools', 'reply, send* find_messages'],
      ['work_paths', 'data/, my reports'],
      ['greeting', 'Hello'],
      ['colour', '#4f5bd5'],
      ['starters', ' What is new?\n\nPlan, my week '],
    ] as const)
      await cli.ok(['group', 'demo', 'set', 'main', key, value])
    const row = JSON.parse(await cli.ok('group demo show main --json'))
    assert.deepEqual(
      [row.name, row.open, row.observe_window_messages, row.observe_window_chars, row.container_config],
      ['The Desk', false, 0, 1_000_000, '{"max_children":3}'],
    )
    assert.deepEqual(JSON.parse(row.config).command, ['./agent.py', '--brief'])
    assert.deepEqual(JSON.parse(row.config).tools, ['reply', 'send*', 'find_messages'])
    assert.deepEqual(JSON.parse(row.config).work_paths, ['data', 'my reports'])
    assert.equal(
      await cli.ok(['group', 'demo', 'set', 'main', 'tools', '["reply"]']),
      'tools of main: ["reply","send*","find_messages"] -> ["reply"]\n',
    )
    const { greeting, colour, starters } = JSON.parse(row.config)
    assert.deepEqual([greeting, colour, starters], ['Hello', '#4f5bd5', ['What is new?', 'Plan, my week']])
    assert.equal(
      await cli.ok(['group', 'demo', 'set', 'main', 'starters', '["One", "Two"]']),
      'starters of main: What is new?\\nPlan, my week -> One\\nTwo\n',
    )
    await cli.ok('group demo set main name --unset')
    assert.equal(await cli.ok('group demo set main open --unset'), 'open of main: false -> true\n')
    assert.match(await cli.ok('group demo list'), /^main\tmain$/m)
  })
})

suite('svc group set refuses', () => {
  const demo = demoCli({ after })
  const cases: Record<string, [string[], RegExp]> = {
    'an unknown key': [
      ['main', 'runtme', 'demo'],
      /unknown key "runtme"; did you mean runtime\?\nhint: keys are name,/,
    ],
    'an unknown runtime': [['main', 'runtime', 'opnai'], /unknown runtime "opnai"; did you mean openai\?/],
    'no value': [['main', 'model'], /<value> is missing\nhint: --unset removes model/],
    'a value and --unset': [['main', 'model', 'x', '--unset'], /give a value or --unset, not both/],
    'a control character': [['main', 'model', 'a\u0007b'], /config.model must not contain control characters/],
    'a command that is not a list of strings': [
      ['main', 'command', '[1]'],
      /command must be a shell command line or a JSON/,
    ],
    'invalid tool names': [['main', 'tools', 'reply a/b'], /config.tools must be tool names/],
    'a list of tools that is not JSON': [['main', 'tools', '[reply'], /config.tools must be a list of tool names/],
    'a work path below another directory': [
      ['main', 'work_paths', 'a/b'],
      /config.work_paths must be names of directories/,
    ],
    'instructions as a work path': [
      ['main', 'work_paths', 'data,skills'],
      /must not contain skills, which decides how/,
    ],
    'open that is neither true nor false': [['main', 'open', 'yes'], /open must be true or false/],
    'a window that is not a number': [['main', 'observe_window_chars', '-1'], /must be a whole number/],
    'a window beyond its limit': [['main', 'observe_window_chars', '1000001'], /observe_window_chars must be at most/],
    'a name that is too long': [['main', 'name', 'x'.repeat(129)], /name is longer than 128/],
    'a colour by its name': [['main', 'colour', 'red'], /config.colour must be "#" and six hexadecimal digits/],
    'five starters': [['main', 'starters', 'a\nb\nc\nd\ne'], /config.starters has more than 4 entries/],
    'starters that are not JSON': [['main', 'starters', '[1]'], /config.starters has a message that/],
    'a picture that is not in the workspace': [
      ['main', 'picture', 'me.png'],
      /me.png is not in the workspace of main, or no picture: a picture must be a PNG,/,
    ],
    'a picture outside of the workspace': [
      ['main', 'picture', '../me.png'],
      /\.\.\/me\.png is not in the workspace of main|config.picture must be the path of an image/,
    ],
    'an unknown group': [['nope', 'model', 'x'], /there is no group nope/],
  }
  for (const [what, [words, sentence]] of Object.entries(cases))
    test(what, async () => {
      const cli = await demo
      const { code, stdout, stderr } = await cli.run(['group', 'demo', 'set', ...words])
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr, sentence)
    })

  test('and changes nothing', async () => {
    const cli = await demo
    assert.doesNotMatch(await cli.ok('audit demo'), /groups\.set/)
    assert.equal(JSON.parse(await cli.ok('group demo show main --json')).config, undefined)
    assert.equal((await cli.run('group demo show nope')).stderr, 'svc: there is no group nope\n')
  })
})
