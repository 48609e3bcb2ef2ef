import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { demoCli, demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'

onEveryEngine('svc audit', (engine) => {
  test('lists changes, newest last, with a limit and as JSON', async (t) => {
    const cli = await demoCliOn(t, engine)
    await cli.ok('gate demo add team 10')
    await cli.ok('secret demo set main API_KEY --value -', { stdin: 's3cret' })
    const lines = (await cli.ok('audit demo')).trimEnd().split('\n')
    assert.equal(lines[0], 'TIME\tOUTCOME\tACTOR\tBY\tACTION\tKEY\tFOLDER\tDETAIL')
    assert.deepEqual(
      lines.slice(1).map((line) => line.split('\t')[4]),
      ['groups.add', 'onboarding_gates.put', 'secrets.create'],
    )
    assert.doesNotMatch(lines.join(), /s3cret/)
    const rows = JSON.parse(await cli.ok('audit demo --limit 2 --json'))
    assert.deepEqual(
      rows.map(({ action }: { action: string }) => action),
      ['onboarding_gates.put', 'secrets.create'],
    )
    const ofFolder = await cli.run('audit demo --folder main')
    assert.deepEqual([ofFolder.code, ofFolder.stderr], [0, 'no audit entries\n'])
  })
})

test('svc audit lists more rows than one page of the verb', async (t) => {
  const cli = await demoCli(t)
  const db = new DatabaseSync(`${cli.root}/store/svc.db`)
  db.exec(`with recursive n (i) as (select 0 union all select i + 1 from n where i < 205)
    insert into audit (created_at, category, action, actor, resource, key, surface, params_summary, outcome, duration_ms, instance)
    select created_at, category, action, actor, resource, 'g' || i, surface, params_summary, outcome, duration_ms, instance
    from n, (select * from audit limit 1) order by i`)
  db.close()
  const rows = JSON.parse(await cli.ok('audit demo --limit 204 --json'))
  assert.deepEqual([rows.length, rows.at(-1).key], [204, 'g205'])
  assert.equal((await cli.ok('audit demo')).trimEnd().split('\n').length, 51)
})

test('svc audit --follow prints each new row once and stops at Ctrl-C', async (t) => {
  const cli = await demoCli(t)
  const [started, stop] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const followed = cli.ok('audit demo --follow', {
    stopped: stop.promise,
    heard: (text) => {
      started.resolve()
      if (text.includes('second')) stop.resolve()
    },
  })
  await started.promise
  await cli.ok('gate demo add first 1')
  await cli.ok('gate demo add second 1')
  const keys = (await followed)
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t')[5])
  assert.deepEqual(keys, ['KEY', 'main', 'first', 'second'])
})

test('svc audit refuses an invalid limit and an invalid folder', async (t) => {
  const cli = await demoCli(t)
  for (const [flags, sentence] of [
    ['--limit many', /--limit must be a whole number/],
    ['--folder ../x', /folder must be names/],
  ] as const) {
    const { code, stderr } = await cli.run(`audit demo ${flags}`)
    assert.equal(code, 1)
    assert.match(stderr, sentence)
  }
})
