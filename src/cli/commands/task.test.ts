import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Cli, demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'

interface ShownTask {
  readonly task: { readonly status: string; readonly next_run?: string }
  readonly next_runs: readonly string[]
  readonly runs: readonly { readonly id: string; readonly status: string; readonly result: string }[]
}

async function showJson(cli: Cli, id: string): Promise<ShownTask> {
  return JSON.parse(await cli.ok(`task demo show ${id} --json`))
}

onEveryEngine('svc task', (engine) => {
  test('lists the tasks of a new instance and shows one with its next runs', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.equal((await cli.ok('task demo list')).trimEnd().split('\n').length, 6)
    const text = await cli.run('task demo show main-mem-0')
    assert.match(text.stdout, /^id: main-mem-0\nfolder: main\nchat: main\nstatus: active\ncron: 0 2 \* \* \*\n/)
    assert.equal(text.stderr, 'no runs yet\n')
    const { task, next_runs } = await showJson(cli, 'main-mem-0')
    const [first = '', second = '', third = ''] = next_runs
    const day = 86_400_000
    assert.deepEqual([first, next_runs.length], [task.next_run, 3])
    assert.equal(Date.parse(second) - Date.parse(first), day)
    assert.equal(Date.parse(third) - Date.parse(second), day)
  })

  test('adds a task and changes it', async (t) => {
    const cli = await demoCliOn(t, engine)
    const added = await cli.ok(['task', 'demo', 'add', 'main', 'Report.', '--cron', '0 9 * * *', '--isolated'])
    const [, id = ''] = /^added task (\S+)\n$/.exec(added) ?? []
    assert.match(
      await cli.ok(`task demo show ${id}`),
      /cron: 0 9 \* \* \*\n[\s\S]*context: isolated\n[\s\S]*prompt: Report\.\n/,
    )
    assert.equal(await cli.ok(['task', 'demo', 'change', id, '-p', 'Other.', '-c', '60000']), `changed task ${id}\n`)
    assert.match(await cli.ok(`task demo show ${id}`), /cron: 60000\n[\s\S]*prompt: Other\.\n/)
    assert.match((await cli.run(`task demo change ${id}`)).stderr, /nothing to change/)
  })

  test('pauses and resumes a task and reports when nothing changed', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.equal(await cli.ok('task demo pause main-mem-1'), 'task main-mem-1: active -> paused\n')
    assert.equal(await cli.ok('task demo pause main-mem-1'), 'task main-mem-1 is paused; nothing changed\n')
    assert.deepEqual((await showJson(cli, 'main-mem-1')).next_runs, [])
    assert.equal(await cli.ok('task demo resume main-mem-1'), 'task main-mem-1: paused -> active\n')
    assert.equal(await cli.ok('task demo resume main-mem-1'), 'task main-mem-1 is active; nothing changed\n')
  })

  test('run starts a task once and does not change its schedule or its pause', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('task demo pause main-mem-2')
    const before = await showJson(cli, 'main-mem-2')
    for (const _ of [1, 2]) assert.equal(await cli.ok('task demo run main-mem-2'), 'started task main-mem-2 once\n')
    const after = await showJson(cli, 'main-mem-2')
    assert.deepEqual(after.task, before.task)
    assert.deepEqual(
      after.runs.map(({ status, result }) => [status, result]),
      [
        ['success', 'enqueued'],
        ['success', 'enqueued'],
      ],
    )
    const messages: { id: string; text: string }[] = JSON.parse(await cli.ok('messages demo --json'))
    assert.deepEqual(
      messages.map(({ text }) => text),
      ['/compact-memories episodes month', '/compact-memories episodes month'],
    )
    assert.deepEqual(messages.map(({ id }) => id).sort(), after.runs.map(({ id }) => id).sort())
    const { stderr } = await cli.run('task demo run main-mem-2')
    assert.match(stderr, /^svc messages demo show \S+ shows the result\n$/)
  })

  test('accepts a prefix of an id and lists the matches of an ambiguous one', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('group demo add sandbox:lobby team')
    const several = await cli.run('task demo rm team')
    assert.deepEqual(
      [several.code, several.stderr],
      [
        1,
        'svc: several task ids start with team: team-mem-0, team-mem-1, team-mem-2, team-mem-3, team-mem-4\nhint: type more of the id\n',
      ],
    )
    for (const number of [0, 1, 2, 3]) await cli.ok(`task demo rm team-mem-${number}`)
    assert.equal(await cli.ok('task demo rm team'), 'removed task team-mem-4\n')
    const none = await cli.run('task demo rm team')
    assert.deepEqual([none.code, none.stderr], [1, 'svc: there is no task whose id starts with team\n'])
  })
})

test('a whole id selects its task, even if another id starts with it', async (t) => {
  const cli = await demoCli(t)
  const task = (id: string): string =>
    `  - {id: ${id}, owner: main, chat_jid: main, prompt: hi, cron: 0 1 * * *, status: active, context_mode: group}\n`
  const manifest = `config_version: 1\nscheduled_tasks:\n${task('a')}${task('ab')}`
  await cli.ok('apply demo -', { stdin: manifest })
  assert.equal(await cli.ok('task demo rm a'), 'removed task a\n')
  assert.equal(await cli.ok('task demo rm a'), 'removed task ab\n')
})

test('the command that doctor suggests removes a task of a deleted group', async (t) => {
  const cli = await demoCli(t)
  await cli.ok('group demo add sandbox:lobby team')
  await cli.ok('group demo rm team')
  for (let left = 5; left > 0; left--) {
    const { stdout } = await cli.run('doctor demo')
    const [, next = ''] = /✗ tasks: .*\n {4}→ svc (.*)\n/.exec(stdout) ?? []
    const fired = await cli.run(next.replace(' rm ', ' run '))
    assert.deepEqual([fired.code, fired.stderr], [1, 'svc: there is no group team\n'])
    assert.match(await cli.ok(next), /^removed task team-mem-\d\n$/)
  }
  assert.match((await cli.run('doctor demo')).stdout, /✓ tasks: /)
})
