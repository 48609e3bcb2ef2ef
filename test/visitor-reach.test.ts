// What visitors can cause through an agent: tools called with any arguments in a turn of reach `chat` show and change
// nothing outside of its chat, and start no turn with more reach.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import type { Tool } from '@modelcontextprotocol/client'
import fc from 'fast-check'
import { hasReach, type Reach } from '../src/core/access/reach.ts'
import { writeWork } from '../src/core/groups/work-file.ts'
import { visitorPart } from '../src/core/links/visitor-chats.ts'
import { lockMessageOrder, messages } from '../src/core/messages/messages.ts'
import { visitorConversation } from '../src/core/routing/routing-decision.ts'
import { fireDueTasks } from '../src/core/schedule/task-firing.ts'
import { claimTurn } from '../src/core/turns/turn-claim.ts'
import { type Turn, turns } from '../src/core/turns/turns.ts'
import { PRODUCT_TABLES } from '../src/daemons/tables.ts'
import { scheduledTasksResource } from '../src/resources/scheduled-tasks.ts'
import { secretsResource } from '../src/resources/secrets.ts'
import { fakeChannel } from './support/fake-channel.ts'
import { agent, type EngineName, onEveryEngine, testHost } from './support/host.ts'
import { addLink } from './support/rows.ts'
import { openSearchHost, type SearchHost } from './support/search-host.ts'
import { run } from './support/sql.ts'
import { openTools, PRODUCT_TOOLS } from './support/tools.ts'

/** The tools of each reach; all others need `all`. */
const TOOLS: Readonly<Record<Exclude<Reach, 'all'>, readonly string[]>> = {
  chat: [
    ...['reply', 'send', 'post', 'quote', 'repost', 'like', 'dislike', 'edit', 'delete', 'pin_message'],
    ...['unpin_message', 'unpin_all', 'send_file', 'send_voice', 'pane_set_prompts', 'pane_set_title'],
    ...['fetch_history', 'get_thread', 'find_messages', 'inspect_messages', 'schedule_task', 'list_tasks'],
    ...['inspect_tasks', 'pause_task', 'resume_task', 'cancel_task'],
  ],
  work: [
    ...['forward', 'delegate_group', 'escalate_group', 'refresh_groups', 'inject_message', 'engage', 'disengage'],
    ...['fork_topic', 'reset_session', 'get_work', 'set_work', 'inspect_routing', 'inspect_session'],
    ...['inspect_identity', 'log_external_cost'],
  ],
}

suite('the reach of tools', () => {
  test('is declared for exactly the tools of this list', () => {
    const declared = Object.groupBy(PRODUCT_TOOLS.tools.values(), ({ reach = 'all' }) => reach)
    for (const reach of ['chat', 'work'] as const)
      assert.deepEqual(declared[reach]?.map(({ name }) => name).sort(), [...TOOLS[reach]].sort())
    assert.ok((declared.all?.length ?? 0) > 20)
  })

  test('a tool beyond the reach of the turn is not listed and is refused with the reason', async (t) => {
    const on = await testHost(t)
    await on.groups('main')
    for (const reach of ['chat', 'work', 'all'] as const) {
      const session = await openTools(t, on.host, agent('main'), { reach })
      const names = await session.names()
      for (const { name, reach: needed = 'all', isAvailable } of PRODUCT_TOOLS.tools.values()) {
        const isIn = hasReach(reach, needed)
        const mayBe = isAvailable?.({ host: on.host, caller: agent('main'), face: 'tool' }) ?? true
        assert.equal(names.includes(name), isIn && mayBe, `${name} at ${reach}`)
        if (isIn) continue
        const whose = reach === 'chat' ? 'visitors of this chat' : 'the sender of this message'
        assert.equal(
          await session.refusal(name, { nonsense: true }),
          `${name}: not permitted in this turn, because ${whose} may not ask for it (reach ${reach}, needed ${needed})`,
        )
      }
    }
  })

  test('a refused call is in the audit log with the reach of the turn', async (t) => {
    const on = await testHost(t)
    await on.groups('main')
    const session = await openTools(t, on.host, agent('main'), { reach: 'chat' })
    await session.refusal('invite_create', { target_glob: '**' })
    const { rows } = await on.host.engine.read((tx) =>
      run(tx, `select action, outcome, reach, error_msg from audit where action = 'invites.create'`),
    )
    assert.deepEqual(
      rows.map(({ outcome, reach }) => [outcome, reach]),
      [['denied', 'chat']],
    )
    assert.match(String(rows[0]?.error_msg), /visitors of this chat may not ask for it/)
  })
})

/** A link that keeps visitors apart, the chat of this visitor, and that of another one. */
const LINK = 'web:team/site'
const OWN = LINK + visitorPart('own')
const OTHER = LINK + visitorPart('other')
const MARK = 'xyzzy'

interface VisitorHost extends SearchHost {
  readonly turn: Turn
  readonly ids: readonly string[]
}

/** A folder with private content everywhere, all of it containing MARK. */
async function openVisitorHost(t: TestContext, engine: EngineName): Promise<VisitorHost> {
  const on = await openSearchHost(t, engine, { channel: fakeChannel() })
  const { host, cli } = on
  const ids: string[] = []
  for (const jid of ['fake:room/1', 'web:team', 'web:team/other', 'hook:team/ci', 'team', LINK, OTHER])
    ids.push((await on.receive(`${MARK} in ${jid}`, { jid, folder: 'team', topic: 'plans' })).id)
  ids.push((await on.receive(`${MARK} of other`, { jid: 'fake:room/2', folder: 'other' })).id)
  ids.push((await on.say(`${MARK} said`)).id)
  ids.push((await on.receive('hello', { jid: OWN, folder: 'team', reach: 'chat', sender: 'anon:1' })).id)
  ids.push((await on.say('hello to you', { jid: OWN })).id)
  // The reason of a failure is private even in the visitor's own chat.
  const failed = { state: 'failed', reason: `${MARK} refused the key` } as const
  ids.push((await on.receive('and now?', { jid: OWN, folder: 'team', reach: 'chat', sender: 'anon:1', ...failed })).id)
  await addLink(on, LINK, { owner_folder: 'team', target_folder: 'team', visitors: 'apart' })
  await addLink(on, 'web:team/other', { owner_folder: 'team', target_folder: 'team', context: MARK })
  await cli.call(secretsResource.verbs.create, { scope_kind: 'folder', owner: 'team', key: 'KEY', value: MARK })
  if (host.layout) await writeWork(host.layout, 'team', MARK)
  const schedule = scheduledTasksResource.verbs.schedule
  for (const targetJid of [OWN, OTHER, 'fake:room/1', 'team'])
    ids.push((await cli.call(schedule, { targetJid, prompt: `${MARK} task`, cron: '3600000' })).taskId)
  const turn = await host.engine.transaction(async (tx) => {
    const idle = { first_seq: 1, last_seq: 1, message_count: 1, attempts: 1, fence: 1, replies: 0, depth: 0 }
    const plain = { is_isolated: false, is_timed: false, is_guest: false, is_stopping: false, run_after: 0 }
    const visitorTurn: Turn = {
      ...{ ...idle, ...plain, id: 'visit', folder: 'team', topic: visitorConversation(OWN, ''), jid: OWN },
      ...{ chat_topic: '', sender: 'anon:1', state: 'running', leased_until: Number.MAX_SAFE_INTEGER },
      ...{ started_at: '2026-01-01T00:00:00.000Z', reach: 'chat' },
    }
    await turns.insert(tx, visitorTurn)
    return visitorTurn
  })
  return { ...on, turn, ids: [...ids, 'visit', 'nothing'] }
}

/** Meaningful values for any argument. */
function textsOf({ ids }: VisitorHost): fc.Arbitrary<string> {
  return fc.constantFrom(
    ...ids,
    ...[OWN, LINK, OTHER, 'web:team', 'web:team/other', 'fake:room/1', 'fake:room/2', 'hook:team/ci', 'web:other'],
    ...['team', 'main', 'team/sub', 'other', '', 'plans', '**', 'team/**', 'visitor:web:team/other#', 'timed:x'],
    ...[
      '/home/node/work.md',
      '/home/node/PERSONA.md',
      '/home/node/public/../work.md',
      '/home/chat/../x',
      '/etc/passwd',
    ],
    ...[
      MARK.slice(0, 3),
      `${MARK.slice(0, 4)}*`,
      'hello',
      `fake:room/1|${ids[0]}`,
      `${OWN}|${ids[0]}`,
      `${OTHER}|${ids[6]}`,
    ],
    ...['2030-01-01T00:00:00Z', 'github:1', 'system', 'isolated', 'https://x.example'],
    ...['{"seq":0,"match":"room=*","target":"team"}', '[]'],
  )
}

type Schema = Record<string, unknown>

function argumentOf(on: VisitorHost, schema: Schema): fc.Arbitrary<unknown> {
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum)
  if (schema.type === 'boolean') return fc.boolean()
  if (schema.type === 'integer' || schema.type === 'number') return fc.constantFrom(0, 1, 2, 50, -1)
  if (schema.type === 'array') {
    const items = (schema.items ?? {}) as Schema
    return fc.array(items.type === 'object' ? objectOf(on, items) : argumentOf(on, items), { maxLength: 2 })
  }
  return schema.type === 'object' ? objectOf(on, schema) : textsOf(on)
}

/** Random texts are almost never a valid schedule. */
const CRON = fc.constantFrom('1000', '60000', '* * * * *', '2030-01-01T00:00:00Z', 'never')

function objectOf(on: VisitorHost, { properties = {}, required = [] }: Schema): fc.Arbitrary<Record<string, unknown>> {
  const fields = Object.entries(properties as Record<string, Schema>).map(([name, part]) => [
    name,
    name === 'cron' ? CRON : argumentOf(on, part),
  ])
  return fc.record(Object.fromEntries(fields), { requiredKeys: required as string[] })
}

interface Call {
  readonly name: string
  readonly args: Record<string, unknown>
}

/** Mostly tools that the turn has, half of the time in its own chat: otherwise nearly every call would be refused. */
function calls(on: VisitorHost): fc.Arbitrary<Call[]> {
  const tool = (shown: Pick<Tool, 'name' | 'inputSchema'>): fc.Arbitrary<Call> =>
    fc
      .tuple(objectOf(on, shown.inputSchema as Schema), fc.boolean())
      .map(([args, isHere]) => ({ name: shown.name, args: isHere ? inOwnChat(args) : args }))
  const own = PRODUCT_TOOLS.definitions.filter(({ name }) => TOOLS.chat.includes(name)).map(tool)
  const others = PRODUCT_TOOLS.definitions.filter(({ name }) => !TOOLS.chat.includes(name)).map(tool)
  const one = fc.oneof({ weight: 4, arbitrary: fc.oneof(...own) }, { weight: 1, arbitrary: fc.oneof(...others) })
  return fc.array(one, { minLength: 1, maxLength: 8 })
}

function inOwnChat(args: Record<string, unknown>): Record<string, unknown> {
  const chats = ['chatJid', 'chat_jid', 'targetJid', 'jid', 'scope']
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [name, chats.includes(name) ? OWN : value]))
}

/** Whether the turn may change this row: rows of its chat, its own row, and harmless counters. */
function mayChange(table: string, row: Record<string, unknown>, seqs: ReadonlySet<unknown>): boolean {
  if (['audit', 'filing', 'routing', 'link_stats', 'task_leases', 'config_version'].includes(table)) return true
  if (table === 'cost_log') return row.folder === 'team' && row.chat_jid === OWN
  // Sums of `cost_log`.
  if (table === 'daily_costs') return row.payer === 'folder' ? row.name === 'team' : true
  if (table === 'daily_spend') return row.folder === 'team'
  if (table === 'task_rates' || table === 'rated_tasks') return String(row.rate).includes(JSON.stringify(OWN))
  if (table === 'turns') return row.id === 'visit'
  if (table === 'scheduled_tasks') return row.chat_jid === OWN && row.reach === 'chat'
  if ('message_seq' in row && !('jid' in row)) return seqs.has(Number(row.message_seq))
  return row.jid === OWN
}

type Snapshot = ReadonlyMap<string, ReadonlyMap<string, Record<string, unknown>>>

async function snapshot({ host }: VisitorHost): Promise<Snapshot> {
  const tables = new Map<string, ReadonlyMap<string, Record<string, unknown>>>()
  await host.engine.read(async (tx) => {
    for (const { name } of PRODUCT_TABLES) {
      const { rows } = await run(tx, `select * from ${name}`)
      tables.set(name, new Map(rows.map((row) => [JSON.stringify(row, plain), row])))
    }
  })
  return tables
}

function plain(_name: string, value: unknown): unknown {
  return value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : value
}

function filesOf(path: string): string[] {
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .map((name) => join(path, name))
    .filter((file) => statSync(file).isFile())
    .map((file) => `${file} ${readFileSync(file, 'latin1')}`)
    .sort()
}

/** Calls the tools as a run of this turn does and returns the results. */
async function callAll(t: TestContext, on: VisitorHost, all: readonly Call[]): Promise<string> {
  const session = await openTools(t, on.host, agent('team'), { reach: 'chat', turn: { id: 'visit', fence: 1 } })
  const answers: string[] = []
  for (const { name, args } of all) {
    const answer = await session.client
      .callTool({ name, arguments: args })
      .catch((error) => ({ content: String(error) }))
    // Arguments that are echoed back reveal nothing.
    answers.push(JSON.stringify(answer.content).replaceAll(JSON.stringify(args).slice(1, -1), ''))
  }
  return answers.join('\n')
}

onEveryEngine('a turn of reach chat', (engine) => {
  test('shows and changes nothing outside of its chat, for any tool calls', async (t) => {
    const on = await openVisitorHost(t, engine)
    const home = on.host.layout?.groups ?? assert.fail('no files')
    await fc.assert(
      fc.asyncProperty(calls(on), async (all) => {
        const [before, files] = [await snapshot(on), filesOf(home)]
        const answers = await callAll(t, on, all)
        assert.ok(!answers.includes(MARK), answers)
        const after = await snapshot(on)
        const seqs = new Set((await on.host.engine.read((tx) => messages.list(tx, { jid: OWN }))).map(({ seq }) => seq))
        for (const [table, rows] of after) {
          const known = before.get(table) ?? new Map()
          const changed = [
            ...[...rows].filter(([key]) => !known.has(key)),
            ...[...known].filter(([key]) => !rows.has(key)),
          ]
          for (const [key, row] of changed) assert.ok(mayChange(table, row, seqs), `${table} changed: ${key}`)
        }
        assert.deepEqual(filesOf(home), files)
      }),
      { numRuns: engine === 'sqlite' ? 60 : 8 },
    )
  })

  test('starts no later turn with more reach', async (t) => {
    const on = await openVisitorHost(t, engine)
    const { host, clock } = on
    let later = 0
    const firing = { dialect: host.engine.dialect, clock, random: host.random, timeZone: 'UTC' }
    await fc.assert(
      fc.asyncProperty(calls(on), async (all) => {
        const { rows: last } = await host.engine.read((tx) => run(tx, 'select max(seq) as seq from messages'))
        const scheduled = { targetJid: OWN, prompt: 'again', cron: '60000' }
        await callAll(t, on, [{ name: 'schedule_task', args: scheduled }, ...all])
        // Makes all tasks due, except those that the operator scheduled before.
        clock.advance(60_000)
        await host.engine.transaction(async (tx) => {
          await run(tx, `update scheduled_tasks set next_run = '2099-01-01T00:00:00.000Z' where reach <> 'chat'`)
          await run(
            tx,
            `update scheduled_tasks set next_run = '2000-01-01T00:00:00.000Z' where reach = 'chat' and status = 'active'`,
          )
          await fireDueTasks(tx, firing, 100)
        })
        await on.routeAll()
        for (;;) {
          const claimed = await host.engine.transaction(async (tx) => {
            await lockMessageOrder(tx, host.engine.dialect)
            return claimTurn(
              tx,
              { ...host.rules, turnsMax: 1000, turnsPerFolder: 1000 },
              { now: clock.now(), leaseMs: 1e9 },
            )
          })
          if (!claimed) break
          later++
          const { turn } = claimed
          assert.deepEqual([turn.reach, turn.jid, turn.folder], ['chat', OWN, 'team'], JSON.stringify(turn))
        }
        const arrived = await host.engine.read((tx) =>
          run(tx, `select reach, jid from messages where direction = 'in' and seq > $1`, [Number(last[0]?.seq)]),
        )
        for (const { reach, jid } of arrived.rows) assert.deepEqual([reach, jid], ['chat', OWN])
      }),
      { numRuns: engine === 'sqlite' ? 60 : 8 },
    )
    assert.ok(later > 0, 'no later turn was claimed')
  })
})
