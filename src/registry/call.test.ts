import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { z } from 'zod'
import { agent, isRefusal, onEveryEngineQuickly, person, testHost } from '../../test/support/host.ts'
import { run } from '../../test/support/sql.ts'
import { refuse, TransientRefusal } from '../lib/refusal.ts'
import { Table } from '../store/table.ts'
import { allowAnyone, requireTool } from './authorization.ts'
import { callVerb } from './call.ts'
import type { Context } from './context.ts'
import { defineResource, defineVerb } from './resource.ts'

const Note = z.object({ folder: z.string(), text: z.string() })
const notes = defineResource({
  of: new Table({ name: 'notes', row: Note, key: 'folder', storage: [] }),
  title: 'Notes',
  servedBy: 'routd',
  verbs: (table) => ({
    write: defineVerb({
      input: Note,
      authorize: requireTool(({ folder }: { folder: string }) => folder),
      run: (ctx, note) => table.upsert(ctx.tx, note),
    }),
    writeThenFail: defineVerb({
      input: Note,
      authorize: allowAnyone,
      run: async (ctx, note) => {
        await table.upsert(ctx.tx, note)
        refuse('conflict', 'refused after the write')
      },
    }),
    writeThenNotify: defineVerb({
      input: Note.extend({ fails: z.boolean() }),
      authorize: allowAnyone,
      run: async (ctx, { fails, ...note }) => {
        ctx.afterCommit(() => {
          notified.push(note.text)
          if (fails) throw new Error('notification failed')
        })
        await table.upsert(ctx.tx, note)
      },
    }),
    writePrepared: defineVerb({
      input: Note,
      authorize: requireTool(({ folder }: { folder: string }) => folder),
      prepare: async (_request, { text }) => {
        prepared.push(text)
        if (text === 'bad') refuse('invalid', 'file not found')
        await hooks.duringPrepare()
        return `${text} prepared`
      },
      run: (ctx, note, result) => table.upsert(ctx.tx, { ...note, text: String(result) }),
    }),
    read: defineVerb({
      isReadOnly: true,
      input: z.object({}),
      output: z.array(Note),
      authorize: allowAnyone,
      run: (ctx) => table.list(ctx.tx),
    }),
    nest: defineVerb({ input: z.object({}), authorize: allowAnyone, run: (ctx) => hooks.nested(ctx) }),
  }),
})
const notified: string[] = []
const prepared: string[] = []
/** Replaced by single tests. */
const hooks = {
  duringPrepare: async (): Promise<void> => {},
  nested: async (_ctx: Context): Promise<void> => {},
}

onEveryEngineQuickly('calling a verb', (engine) => {
  async function open(t: Parameters<typeof testHost>[0]) {
    const opened = await testHost(t, engine)
    const sql = 'create table notes (folder text primary key, text text not null)'
    await opened.host.engine.transaction((tx) => run(tx, sql))
    const audits = async () => (await opened.host.engine.read((tx) => run(tx, 'select * from audit order by id'))).rows
    return { ...opened, audits }
  }
  const note = { folder: 'team', text: 'x' }

  test('writes the change and its audit row in one transaction', async (t) => {
    const { host, cli, audits } = await open(t)
    await cli.call(notes.verbs.write, note)
    const [row] = await audits()
    assert.deepEqual(
      [row?.action, row?.actor, row?.surface, row?.outcome, row?.key, row?.category],
      ['notes.write', 'cli', 'cli', 'ok', 'team', 'mutation'],
    )
    await host.engine.transaction((tx) => run(tx, 'drop table audit'))
    await assert.rejects(cli.call(notes.verbs.write, { ...note, text: 'y' }))
    assert.deepEqual(await cli.call(notes.verbs.read, {}), [note])
  })

  test('rolls back when the verb refuses, without an audit row', async (t) => {
    const { cli, audits } = await open(t)
    await assert.rejects(cli.call(notes.verbs.writeThenFail, note), isRefusal('conflict', 'refused after the write'))
    assert.deepEqual(await cli.call(notes.verbs.read, {}), [])
    assert.equal((await audits()).length, 0)
  })

  test('audits refused access, but not reads or invalid input', async (t) => {
    const { as, audits } = await open(t)
    await assert.rejects(as(person('github:1')).call(notes.verbs.write, note), isRefusal('forbidden', 'notes.write'))
    await assert.rejects(as(person('github:1')).call(notes.verbs.write, { folder: 1 }), isRefusal('invalid'))
    await as(person('github:1')).call(notes.verbs.read, {})
    const rows = await audits()
    assert.deepEqual(
      rows.map((row) => [row.actor, row.outcome, row.category]),
      [['github:1', 'denied', 'authz']],
    )
  })

  test('checks input before access and refuses unknown fields', async (t) => {
    const { cli } = await open(t)
    await assert.rejects(
      cli.call(notes.verbs.write, { ...note, admin: true }),
      isRefusal('invalid', 'unknown field "admin"'),
    )
    assert.deepEqual(await cli.call(notes.verbs.read, {}), [])
  })

  test('runs effects after the commit and reports their failure as a background error', async (t) => {
    const { host, faults } = await open(t)
    const request = {
      host,
      caller: { kind: 'host', sub: 'cli' },
      face: 'cli',
    } as const
    notified.length = 0
    await callVerb(request, notes.verbs.writeThenNotify, { ...note, text: 'new', fails: true })
    assert.deepEqual(notified, ['new'])
    await new Promise(setImmediate)
    assert.deepEqual(faults, [{ place: 'job', message: 'notification failed' }])
  })

  test('prepares only for authorized callers, and passes the result to run', async (t) => {
    const { as, grant, ungrant, audits, cli } = await open(t)
    prepared.length = 0
    await grant('github:1', 'admin', 'team')
    await assert.rejects(as(person('github:2')).call(notes.verbs.writePrepared, note), isRefusal('forbidden'))
    assert.deepEqual(prepared, [])
    await as(person('github:1')).call(notes.verbs.writePrepared, note)
    assert.deepEqual(await cli.call(notes.verbs.read, {}), [{ folder: 'team', text: 'x prepared' }])
    const before = (await audits()).length
    await assert.rejects(
      as(person('github:1')).call(notes.verbs.writePrepared, { ...note, text: 'bad' }),
      isRefusal('invalid', 'file not found'),
    )
    assert.equal((await audits()).length, before)
    // The transaction checks access again after prepare.
    hooks.duringPrepare = () => ungrant('github:1', 'admin', 'team')
    await assert.rejects(
      as(person('github:1')).call(notes.verbs.writePrepared, { ...note, text: 'late' }),
      isRefusal('forbidden'),
    )
    hooks.duringPrepare = async () => {}
    assert.deepEqual(await cli.call(notes.verbs.read, {}), [{ folder: 'team', text: 'x prepared' }])
  })

  test('fails at once when a verb calls another verb, instead of waiting forever', async (t) => {
    const { host, cli } = await open(t)
    hooks.nested = async () => {
      await callVerb({ host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' }, notes.verbs.write, note)
    }
    await assert.rejects(cli.call(notes.verbs.nest, {}), /inside another/)
    await cli.call(notes.verbs.write, note)
  })

  test('matches the params of a grant against the arguments', async (t) => {
    const { as, grant } = await open(t)
    await grant('folder:team', 'mcp:notes.write', 'team', 'allow', 'text=ok*')
    await as(agent('team')).call(notes.verbs.write, { ...note, text: 'okay' })
    await assert.rejects(as(agent('team')).call(notes.verbs.write, { ...note, text: 'no' }), isRefusal('forbidden'))
    await grant('folder:team', 'mcp:notes.write', 'team')
    await as(agent('team')).call(notes.verbs.write, { ...note, text: 'no' })
    await grant('folder:team', 'mcp:notes.write', 'team', 'deny', 'text=no*')
    await assert.rejects(
      as(agent('team')).call(notes.verbs.write, { ...note, text: 'nope' }),
      isRefusal('forbidden', '!notes.write'),
    )
  })

  test('refuses the next call after a grant is revoked', async (t) => {
    const { as, grant, ungrant } = await open(t)
    await grant('github:1', 'admin', 'team')
    await as(person('github:1')).call(notes.verbs.write, note)
    await ungrant('github:1', 'admin', 'team')
    await assert.rejects(as(person('github:1')).call(notes.verbs.write, note), isRefusal('forbidden'))
  })
})

onEveryEngineQuickly('a temporarily unavailable store', (engine) => {
  /** A store whose first transactions fail. */
  async function openFailing(t: TestContext, failures: number, error = new TransientRefusal('the store is busy')) {
    const { host } = await testHost(t, engine)
    await host.engine.transaction((tx) => run(tx, 'create table notes (folder text primary key, text text not null)'))
    let [tries, outages] = [0, 0]
    const onOutage = (): void => {
      outages++
    }
    const transaction: typeof host.engine.transaction = async (work) => {
      if (++tries <= failures) throw error
      return host.engine.transaction(work)
    }
    const store = { ...host, engine: { ...host.engine, read: host.engine.read.bind(host.engine), transaction } }
    const write = (face: 'tool' | 'rest') =>
      callVerb({ host: store, caller: agent('main'), face, onOutage }, notes.verbs.writeThenNotify, {
        folder: 'main',
        text: 'x',
        fails: false,
      })
    return { write, tries: () => tries, outages: () => outages }
  }

  test('is tried three times by a tool', async (t) => {
    const recovering = await openFailing(t, 2)
    await recovering.write('tool')
    assert.deepEqual([recovering.tries(), recovering.outages()], [3, 0])
    const failing = await openFailing(t, 3)
    await assert.rejects(failing.write('tool'), isRefusal('unavailable', 'busy'))
    assert.deepEqual([failing.tries(), failing.outages()], [3, 1])
  })

  test('is not retried after an unknown outcome, or over REST', async (t) => {
    const unclear = await openFailing(t, 1, new TransientRefusal('PostgreSQL cannot be reached', undefined, true))
    await assert.rejects(unclear.write('tool'), isRefusal('unavailable'))
    assert.equal(unclear.tries(), 1)
    const rest = await openFailing(t, 1)
    await assert.rejects(rest.write('rest'), isRefusal('unavailable'))
    assert.equal(rest.tries(), 1)
  })
})
