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
      needs: requireTool(({ folder }: { folder: string }) => folder),
      run: (ctx, note) => table.upsert(ctx.tx, note),
    }),
    writeThenFail: defineVerb({
      input: Note,
      needs: allowAnyone,
      run: async (ctx, note) => {
        await table.upsert(ctx.tx, note)
        refuse('conflict', 'it was not to be')
      },
    }),
    writeThenTell: defineVerb({
      input: Note.extend({ fails: z.boolean() }),
      needs: allowAnyone,
      run: async (ctx, { fails, ...note }) => {
        ctx.afterCommit(() => {
          told.push(note.text)
          if (fails) throw new Error('nobody listened')
        })
        await table.upsert(ctx.tx, note)
      },
    }),
    writePrepared: defineVerb({
      input: Note,
      needs: requireTool(({ folder }: { folder: string }) => folder),
      prepare: async (_asking, { text }) => {
        prepared.push(text)
        if (text === 'bad') refuse('invalid', 'it is not there')
        await betweenTimes()
        return `${text} as found`
      },
      run: (ctx, note, found) => table.upsert(ctx.tx, { ...note, text: String(found) }),
    }),
    read: defineVerb({
      reads: true,
      input: z.object({}),
      output: z.array(Note),
      needs: allowAnyone,
      run: (ctx) => table.list(ctx.tx),
    }),
    nest: defineVerb({ input: z.object({}), needs: allowAnyone, run: (ctx) => nested(ctx) }),
  }),
})
const told: string[] = []
const prepared: string[] = []
let betweenTimes: () => Promise<void> = async () => {}
let nested: (ctx: Context) => Promise<void> = async () => {}

onEveryEngineQuickly('one path for every call', (engine) => {
  async function open(t: Parameters<typeof testHost>[0]) {
    const opened = await testHost(t, engine)
    const sql = 'create table notes (folder text primary key, text text not null)'
    await opened.host.engine.transaction((tx) => run(tx, sql))
    const audits = async () => (await opened.host.engine.read((tx) => run(tx, 'select * from audit order by id'))).rows
    return { ...opened, audits }
  }
  const note = { folder: 'team', text: 'x' }

  test('a mutation and its audit row are one transaction: without the row there is no change', async (t) => {
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

  test('a refusal half-way takes everything back and leaves no audit row', async (t) => {
    const { cli, audits } = await open(t)
    await assert.rejects(cli.call(notes.verbs.writeThenFail, note), isRefusal('conflict', 'not to be'))
    assert.deepEqual(await cli.call(notes.verbs.read, {}), [])
    assert.equal((await audits()).length, 0)
  })

  test('a refusal for want of a right is audited, a read and bad input are not', async (t) => {
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

  test('input is judged before rights, and an unknown member changes nothing', async (t) => {
    const { cli } = await open(t)
    await assert.rejects(
      cli.call(notes.verbs.write, { ...note, admin: true }),
      isRefusal('invalid', 'unknown field "admin"'),
    )
    assert.deepEqual(await cli.call(notes.verbs.read, {}), [])
  })

  test('what is left to do runs after the commit, and its failure is nobody’s', async (t) => {
    const { host } = await open(t)
    const stray: unknown[] = []
    const asking = {
      host: { ...host, onBackgroundError: (error: unknown) => stray.push(error) },
      caller: { kind: 'host', sub: 'cli' },
      face: 'cli',
    } as const
    told.length = 0
    await callVerb(asking, notes.verbs.writeThenTell, { ...note, text: 'told', fails: true })
    assert.deepEqual(told, ['told'])
    await new Promise(setImmediate)
    assert.match(String(stray[0]), /nobody listened/)
  })

  test('only for whoever may is anything prepared, and what was found is what is written', async (t) => {
    const { as, grant, ungrant, audits, cli } = await open(t)
    prepared.length = 0
    await grant('github:1', 'admin', 'team')
    await assert.rejects(as(person('github:2')).call(notes.verbs.writePrepared, note), isRefusal('forbidden'))
    assert.deepEqual(prepared, [])
    await as(person('github:1')).call(notes.verbs.writePrepared, note)
    assert.deepEqual(await cli.call(notes.verbs.read, {}), [{ folder: 'team', text: 'x as found' }])
    const before = (await audits()).length
    await assert.rejects(
      as(person('github:1')).call(notes.verbs.writePrepared, { ...note, text: 'bad' }),
      isRefusal('invalid', 'not there'),
    )
    assert.equal((await audits()).length, before)
    // A right that is taken away while it is prepared is gone when it is written.
    betweenTimes = () => ungrant('github:1', 'admin', 'team')
    await assert.rejects(
      as(person('github:1')).call(notes.verbs.writePrepared, { ...note, text: 'late' }),
      isRefusal('forbidden'),
    )
    betweenTimes = async () => {}
    assert.deepEqual(await cli.call(notes.verbs.read, {}), [{ folder: 'team', text: 'x as found' }])
  })

  test('a verb that calls a verb is an error at once, not a wait for ever', async (t) => {
    const { host, cli } = await open(t)
    nested = async () => {
      await callVerb({ host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' }, notes.verbs.write, note)
    }
    await assert.rejects(cli.call(notes.verbs.nest, {}), /inside another/)
    await cli.call(notes.verbs.write, note)
  })

  test('the params of a grant are held against the members of the call', async (t) => {
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

  test('a right that is taken away is gone at the next call', async (t) => {
    const { as, grant, ungrant } = await open(t)
    await grant('github:1', 'admin', 'team')
    await as(person('github:1')).call(notes.verbs.write, note)
    await ungrant('github:1', 'admin', 'team')
    await assert.rejects(as(person('github:1')).call(notes.verbs.write, note), isRefusal('forbidden'))
  })
})

onEveryEngineQuickly('a store that cannot write for a moment', (engine) => {
  /** Fails so often, and then writes. */
  async function failing(t: TestContext, failures: number, error = new TransientRefusal('the store is busy')) {
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
    const ask = (face: 'tool' | 'rest') =>
      callVerb({ host: store, caller: agent('main'), face, onOutage }, notes.verbs.writeThenTell, {
        folder: 'main',
        text: 'x',
        fails: false,
      })
    return { ask, tries: () => tries, outages: () => outages }
  }

  test('is asked again by a tool, three times in all', async (t) => {
    const passes = await failing(t, 2)
    await passes.ask('tool')
    assert.deepEqual([passes.tries(), passes.outages()], [3, 0])
    const stays = await failing(t, 3)
    await assert.rejects(stays.ask('tool'), isRefusal('unavailable', 'busy'))
    assert.deepEqual([stays.tries(), stays.outages()], [3, 1])
  })

  test('is not asked again where it may have written, nor by a face whose caller can ask again', async (t) => {
    const unclear = await failing(t, 1, new TransientRefusal('PostgreSQL cannot be reached', undefined, true))
    await assert.rejects(unclear.ask('tool'), isRefusal('unavailable'))
    assert.equal(unclear.tries(), 1)
    const rest = await failing(t, 1)
    await assert.rejects(rest.ask('rest'), isRefusal('unavailable'))
    assert.equal(rest.tries(), 1)
  })
})
