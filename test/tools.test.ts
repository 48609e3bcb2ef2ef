// All tools of agents, checked against the tables of the specification with the official client over real sockets: which
// tools each tier sees, their parameters, and their refusals.
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setUpFolder } from '../src/core/groups/products.ts'
import { layout } from '../src/core/layout.ts'
import { scheduledTasks } from '../src/core/schedule/tasks.ts'
import { openSearchIndex } from '../src/core/search/message-search.ts'
import { audit } from '../src/registry/audit.ts'
import { routesResource } from '../src/resources/routes.ts'
import { CLIENT_PHRASES } from '../src/runtimes/claude/client-tools.ts'
import { type GatedHost, openGatedHost } from './support/gated-host.ts'
import { type EngineName, onEveryEngine } from './support/host.ts'
import type { SocketSession } from './support/socket-client.ts'
import { tempDir } from './support/temp.ts'
import { PRODUCT_TOOLS } from './support/tools.ts'

/** Shown as `Working`. */
const VAGUE = new Set(['quote', 'repost', 'unpin_all'])

test('no phrase that readers of a chat see names a tool or a host, and each is short', () => {
  const { tools } = PRODUCT_TOOLS
  const declared = [...tools.values()].flatMap(({ activity }) => activity ?? [])
  assert.ok(declared.length > 10, `${declared.length}`)
  for (const phrase of [...declared, ...CLIENT_PHRASES]) {
    assert.match(phrase, /^[A-Z][a-z]+( [a-z]+){0,6}$/)
    assert.ok(!tools.has(phrase.toLowerCase()) && phrase.length <= 40, phrase)
  }
  // Visitors see the most common ones in words.
  for (const [name, { reach, activity }] of tools)
    if (reach === 'chat' && !VAGUE.has(name)) assert.ok(activity, `${name} has no phrase`)
})

type Args = Record<string, unknown>

/** The highest tier that may have it, the highest tier that has it by default, and its parameters; `?` is optional. */
type Row = readonly [highest: 0 | 1 | 2 | 3, byDefault: 0 | 1 | 2 | 3, parameters: string]

const TARGET = 'chatJid:chat targetId:text'
const HISTORY = 'chat_jid:chat limit?:number before?:text'
const TASK = 'taskId:text'

const SURFACE: Record<string, Row> = {
  post: [2, 2, 'chatJid:chat content:text media?:list'],
  reply: [3, 3, 'chatJid:chat text:text replyToId?:text'],
  send: [3, 2, 'chatJid:chat text:text'],
  send_file: [3, 3, 'chatJid:chat filepath:text filename?:text caption?:text'],
  send_voice: [3, 2, 'chatJid:chat text:text voice?:text'],
  delete: [3, 2, TARGET],
  dislike: [3, 2, TARGET],
  edit: [3, 3, `${TARGET} content:text`],
  forward: [3, 2, 'sourceMsgId:text targetJid:chat comment?:text'],
  like: [3, 3, `${TARGET} reaction:text`],
  quote: [3, 2, 'chatJid:chat sourceMsgId:text comment:text'],
  repost: [3, 2, 'chatJid:chat sourceMsgId:text'],
  pin_message: [3, 2, TARGET],
  unpin_message: [3, 2, TARGET],
  unpin_all: [3, 2, 'chatJid:chat'],

  fetch_history: [3, 2, HISTORY],
  get_thread: [3, 2, `${HISTORY} topic:text`],
  inspect_messages: [3, 2, HISTORY],
  find_messages: [3, 2, 'query:text scope?:text sender?:text since?:text limit?:number'],
  inspect_routing: [3, 2, 'jid?:text limit?:number'],
  inspect_session: [3, 2, 'topic?:text limit?:number'],
  inspect_tasks: [3, 2, 'task_id?:text limit?:number'],
  inspect_identity: [3, 2, 'sub:text'],

  delegate_group: [1, 1, 'group:folder prompt:text chatJid:chat depth?:number'],
  escalate_group: [1, 1, 'prompt:text chatJid:chat depth?:number'],
  refresh_groups: [2, 2, ''],
  register_group: [1, 1, 'jid:chat name?:text fromPrototype?:flag folder?:folder parent?:folder'],
  set_group_open: [1, 1, 'open:flag'],
  set_observe_window: [3, 1, 'messages?:number chars?:number'],
  get_work: [3, 2, ''],
  set_work: [2, 2, 'content:text'],
  inject_message: [3, 1, 'chatJid:chat content:text sender?:text senderName?:text'],
  fork_topic: [3, 2, 'parent:text child:text force?:flag'],
  pane_set_prompts: [3, 1, 'chatJid:chat prompts:list'],
  pane_set_title: [3, 1, 'chatJid:chat title:text'],
  engage: [3, 2, 'jid:chat topic?:text'],
  disengage: [3, 2, 'jid:chat topic?:text'],
  reset_session: [3, 1, 'groupFolder:folder'],

  schedule_task: [1, 1, 'targetJid:chat prompt:text cron?:text contextMode?:text'],
  list_tasks: [1, 1, ''],
  pause_task: [1, 1, TASK],
  resume_task: [1, 1, TASK],
  cancel_task: [1, 1, TASK],

  add_route: [1, 1, 'route:text'],
  delete_route: [1, 1, 'id:number'],
  list_routes: [1, 0, ''],
  set_routes: [1, 1, 'routes:text'],
  list_acl: [1, 1, 'folder:folder'],
  invite_create: [1, 1, 'target_glob:folder max_uses?:number expires_at?:text'],
  list_web_routes: [3, 2, ''],
  set_web_route: [3, 2, 'path:text access:text redirect_to?:text'],
  del_web_route: [3, 2, 'path:text'],
  get_web_host: [1, 1, 'folder?:folder'],
  set_web_host: [0, 0, 'hostname:text folder:folder'],

  log_external_cost: [3, 2, 'provider:text model:text cost_usd:number input_tokens?:number output_tokens?:number'],

  issue_chat_link: [3, 0, 'jid_suffix?:text context?:text target_folder?:folder tools?:text'],
  issue_webhook: [3, 0, 'source_label:text jid_suffix?:text context?:text target_folder?:folder tools?:text'],
  list_route_tokens: [3, 0, ''],
  revoke_route_token: [3, 0, 'jid:text'],
}

interface Parameter {
  readonly name: string
  readonly kind: string
  readonly isOptional: boolean
}

function parametersOf([, , text]: Row): Parameter[] {
  return text.split(' ').flatMap((part) => {
    const [, name = '', mark, kind = ''] = /^(\w+)(\??):(\w+)$/.exec(part) ?? []
    return name === '' ? [] : [{ name, kind, isOptional: mark === '?' }]
  })
}

const FOLDERS = ['main', 'team', 'team/a/b', 'team/a/b/c'] as const
const OURS = 'sandbox:ours'
const THEIRS = 'sandbox:theirs'

/** Arguments with which the agent of `team` may call each tool. */
const SAMPLES: Args = {
  ...{ chatJid: OURS, chat_jid: OURS, targetJid: OURS, jid: OURS, targetId: 'sb-1', sourceMsgId: 'sb-1' },
  ...{ group: 'team/a', groupFolder: 'team', folder: 'team', target_glob: 'team/a', filepath: '/home/node/a.txt' },
  ...{ sub: 'github:1', prompts: [{ title: 'A', message: 'B' }], open: true, taskId: 'task-1', id: 1 },
  ...{
    route: '{"target": "team", "match": "room=new", "seq": 2}',
    routes: '[]',
    path: '/pub/team/x',
    access: 'public',
  },
  ...{ hostname: 'a.example', provider: 'other', cost_usd: 0.01, parent: '', source_label: 'ci', messages: 5 },
}
const OWN_SAMPLES: Record<string, Args> = {
  register_group: { jid: 'sandbox:new', folder: 'team/new' },
  revoke_route_token: { jid: 'web:team' },
  set_observe_window: { messages: 5 },
}

function sampleOf(tool: string): Args {
  const row = SURFACE[tool] ?? assert.fail(tool)
  const needed = parametersOf(row).filter(({ isOptional }) => !isOptional)
  return { ...Object.fromEntries(needed.map(({ name }) => [name, SAMPLES[name] ?? 'x'])), ...OWN_SAMPLES[tool] }
}

interface ToolHost extends GatedHost {
  readonly root: string
}

async function openToolHost(t: TestContext, engine: EngineName = 'sqlite'): Promise<ToolHost> {
  const root = tempDir(t)
  const gate = await openGatedHost(t, {
    engine,
    root,
    before: async (on) => {
      await on.groups('main', 'team', 'team/a', 'team/a/b', 'team/a/b/c', 'other')
      for (const folder of [...FOLDERS, 'team/a', 'other']) await setUpFolder(layout(root), folder)
      writeFileSync(join(root, 'groups/team/a.txt'), 'a file')
      for (const [room, target] of [
        ['ours', 'team'],
        ['theirs', 'other'],
      ])
        await on.cli.call(routesResource.verbs.create, { seq: 1, match: `room=${room}`, target })
      const search = openSearchIndex(on.host.engine, layout(root).search)
      t.after(() => search.close())
      const audio = { path: join(root, 'groups/team/a.txt'), mime: 'audio/ogg' }
      // Services of a process with files and speech synthesis.
      Object.assign(on.host, { search, speech: { synthesize: async () => audio } })
    },
  })
  return { ...gate, root }
}

/** Successful tool calls in the audit log. */
const successfulCalls = (here: GatedHost) =>
  here.read(async (tx) =>
    (await audit.list(tx)).filter(({ outcome, surface }) => outcome === 'ok' && surface === 'tool'),
  )

const namesForTier = (tier: number, by: (row: Row) => number) =>
  Object.entries(SURFACE)
    .filter(([, row]) => tier <= by(row))
    .map(([name]) => name)
    .toSorted()

/** The listed tools of the specification; other tools have a dot in their name. */
async function listSpecified(session: SocketSession): Promise<string[]> {
  const names = (await session.list()).map(({ name }) => name)
  return names.filter((name) => !name.includes('.'))
}

suite('the tool list', () => {
  test('contains the default tools of each tier', async (t) => {
    const here = await openToolHost(t)
    for (const [tier, folder] of FOLDERS.entries()) {
      const session = await here.open(folder)
      assert.deepEqual(
        await listSpecified(session),
        namesForTier(tier, ([, byDefault]) => byDefault),
        folder,
      )
      const tools = await session.list()
      const others = tools.filter(({ name }) => name.includes('.'))
      assert.equal(others.length > 0, tier === 0, 'only the root has tools that the specification does not name')
      for (const { name, description } of tools) assert.match(description ?? '', /.\ngrants: \[".+"\]$/, name)
    }
  })

  test('contains, after a grant of all tools, those that the tier may have', async (t) => {
    const here = await openToolHost(t)
    for (const [tier, folder] of FOLDERS.entries()) {
      await here.grant(`folder:${folder}`, 'mcp:*', '**')
      const session = await here.open(folder)
      assert.deepEqual(
        await listSpecified(session),
        namesForTier(tier, ([highest]) => highest),
        folder,
      )
      for (const [tool, [highest]] of Object.entries(SURFACE))
        if (tier > highest)
          await assert.rejects(session.call(tool, sampleOf(tool)), { code: -32602, message: `unknown tool: ${tool}` })
    }
  })
})

const SCHEMA_TYPES: Record<string, RegExp> = {
  ...{ text: /"type":"string"/, chat: /"type":"string"/, folder: /"type":"string"/ },
  ...{ number: /"type":"(number|integer)"/, flag: /"type":"boolean"/, list: /"type":"array"/ },
}
/** Values of another type that cannot be converted. */
const WRONG_VALUES: Record<string, readonly unknown[]> = {
  ...{ text: [7, true, {}, null], chat: [7, ['web:team'], null], folder: [7, {}, null] },
  ...{ number: ['1', true, null], flag: ['true', 1, null], list: ['x', {}, null] },
}

test('each tool has exactly the parameters of its row', async (t) => {
  const here = await openToolHost(t)
  const tools = new Map((await (await here.open('main')).list()).map((tool) => [tool.name, tool]))
  for (const [name, row] of Object.entries(SURFACE)) {
    const { inputSchema } = tools.get(name) ?? assert.fail(`${name} is missing`)
    const properties = inputSchema.properties ?? {}
    assert.equal(inputSchema.additionalProperties, false, name)
    assert.deepEqual(
      Object.keys(properties).toSorted(),
      parametersOf(row)
        .map((parameter) => parameter.name)
        .toSorted(),
      name,
    )
    const needed = parametersOf(row).filter(({ isOptional }) => !isOptional)
    assert.deepEqual(
      (inputSchema.required ?? []).toSorted(),
      needed.map((parameter) => parameter.name).toSorted(),
      name,
    )
    for (const { name: member, kind } of parametersOf(row))
      assert.match(JSON.stringify(properties[member]), SCHEMA_TYPES[kind] ?? assert.fail(kind), `${name}.${member}`)
  }
})

test('missing, unknown and mistyped arguments are named in the refusal, and nothing is done', async (t) => {
  const here = await openToolHost(t)
  await here.grant('folder:team', 'mcp:*', 'team/**')
  const [root, team] = [await here.open('main'), await here.open('team')]
  const before = (await successfulCalls(here)).length
  for (const [tool, row] of Object.entries(SURFACE)) {
    const session = row[0] === 0 ? root : team
    const refusal = async (args: Args) => {
      const { isError, text } = await session.call(tool, args)
      assert.ok(isError, `${tool} ${JSON.stringify(args)} was not refused: ${text}`)
      return text.split('; ')
    }
    const sample = sampleOf(tool)
    assert.deepEqual(await refusal({ ...sample, nonsense: 1 }), ['unknown field "nonsense"'], tool)
    for (const { name, kind, isOptional } of parametersOf(row)) {
      const { [name]: _, ...rest } = sample
      if (!isOptional) assert.ok((await refusal(rest)).includes(`${name} is required`), `${tool}.${name}`)
      for (const wrong of WRONG_VALUES[kind] ?? assert.fail(kind)) {
        const text = (await refusal({ ...sample, [name]: wrong })).join('; ')
        assert.match(text, new RegExp(`^${name} (must be|has none of)`), `${tool}.${name} ${JSON.stringify(wrong)}`)
      }
    }
  }
  assert.equal((await successfulCalls(here)).length, before)
})

/** Values that `team` has no access to, by kind. */
const OUTSIDE: Record<string, readonly string[]> = { chat: [THEIRS, 'web:other'], folder: ['other', 'main'] }

test('tools refuse chats and folders of others', async (t) => {
  const here = await openToolHost(t)
  await here.grant('folder:team', 'mcp:*', 'team/**')
  const team = await here.open('team')
  const before = (await successfulCalls(here)).length
  for (const [tool, row] of Object.entries(SURFACE)) {
    if (row[0] === 0) continue
    for (const { name, kind } of parametersOf(row))
      for (const outside of OUTSIDE[kind] ?? []) {
        const { isError, text } = await team.call(tool, { ...sampleOf(tool), [name]: outside })
        assert.ok(isError, `${tool}.${name} ${outside} was not refused: ${text}`)
        assert.match(
          text,
          /not permitted|outside team|folder must be directly below parent/,
          `${tool}.${name} ${outside}`,
        )
      }
  }
  assert.equal((await successfulCalls(here)).length, before)
})

test('a route to the own folder gives no access to the link of another folder', async (t) => {
  const here = await openToolHost(t)
  const team = await here.open('team')
  for (const match of ['chat_jid=web:other', 'room=other']) {
    const { isError } = await team.call('add_route', { route: JSON.stringify({ match, target: 'team', seq: 5 }) })
    assert.equal(isError, false)
  }
  for (const [tool, member] of [
    ['send', 'chatJid'],
    ['inspect_messages', 'chat_jid'],
    ['engage', 'jid'],
  ] as const) {
    const { isError, text } = await team.call(tool, { ...sampleOf(tool), [member]: 'web:other' })
    assert.ok(isError && text.endsWith('the chat web:other belongs to a folder outside team'), `${tool}: ${text}`)
  }
})

test('a folder cannot route the chats of another folder to itself', async (t) => {
  const here = await openToolHost(t)
  const [root, team] = [await here.open('main'), await here.open('team')]
  for (const match of ['', 'room=theirs', 'room=th*', 'chat_jid=sandbox:theirs', 'platform=sandbox verb=mention']) {
    const text = `not permitted: "${match}" takes a chat of another folder`
    const route = { match, target: 'team', seq: -5 }
    assert.equal((await team.call('add_route', { route: JSON.stringify(route) })).text, `add_route: ${text}`)
    assert.equal((await team.call('set_routes', { routes: JSON.stringify([route]) })).text, `set_routes: ${text}`)
  }
  assert.ok((await team.call('send', { chatJid: THEIRS, text: 'x' })).isError)
  // An earlier catch-all route gives no access to a chat with a more specific route of another folder.
  const rest = await root.call('add_route', { route: '{"match": "", "target": "team", "seq": 9}' })
  assert.equal(rest.isError, false)
  assert.ok((await team.call('inspect_messages', { chat_jid: THEIRS })).isError)
  assert.equal((await team.call('inspect_messages', { chat_jid: 'sandbox:nobodys' })).isError, false)
})

onEveryEngine('a chat that a glob routes to another folder', (engine) => {
  test('cannot be routed or read by a folder that names it exactly', async (t) => {
    const here = await openToolHost(t, engine)
    const [root, team] = [await here.open('main'), await here.open('team')]
    const glob = { match: 'platform=sandbox room=sales-*', target: 'other' }
    assert.equal((await root.call('add_route', { route: JSON.stringify(glob) })).isError, false)
    const jid = 'sandbox:sales-9'
    const route = JSON.stringify({ match: 'room=sales-9', target: 'team', seq: -9 })
    const text = 'not permitted: "room=sales-9" takes a chat of another folder'
    assert.equal((await team.call('add_route', { route })).text, `add_route: ${text}`)
    assert.equal((await team.call('set_routes', { routes: `[${route}]` })).text, `set_routes: ${text}`)
    const group = { jid, folder: 'team/sales' }
    for (const [tool, args] of [
      ['register_group', group],
      ['inspect_messages', { chat_jid: jid }],
      ['engage', { jid }],
      ['send', { chatJid: jid, text: 'x' }],
    ] as const)
      assert.match((await team.call(tool, args)).text, /the chat sandbox:sales-9 belongs to a folder outside team$/)
  })
})

test('a deny row removes a tool during a session', async (t) => {
  const here = await openToolHost(t)
  for (const folder of ['main', 'team']) await here.grant(`folder:${folder}`, 'mcp:*', '**')
  await here.write((tx) =>
    scheduledTasks.insert(tx, {
      ...{ id: 'task-1', owner: 'team', chat_jid: 'team', prompt: 'x', cron: '0 0 1 1 *', status: 'active' },
      ...{ context_mode: 'group', created_at: '2026-01-01T00:00:00.000Z' },
    }),
  )
  const sessions = { main: await here.open('main'), team: await here.open('team') }
  for (const [tool, [highest]] of Object.entries(SURFACE)) {
    const folder = highest === 0 ? 'main' : 'team'
    await here.grant(`folder:${folder}`, `mcp:${tool}`, '**', 'deny')
    const before = (await successfulCalls(here)).length
    const { isError, text } = await sessions[folder].call(tool, sampleOf(tool))
    assert.ok(isError && /not permitted/.test(text), `${tool}: ${text}`)
    assert.equal((await successfulCalls(here)).length, before, tool)
  }
})

onEveryEngine('each tool', (engine) => {
  test('succeeds once over a real socket', async (t) => {
    const here = await openToolHost(t, engine)
    await here.grant('folder:team', 'mcp:*', 'team/**')
    const sessions = { main: await here.open('main'), team: await here.open('team') }
    const done = new Set<string>()
    const call = async (tool: string, args: Args = sampleOf(tool), folder: 'main' | 'team' = 'team') => {
      const { isError, text, json } = await sessions[folder].call(tool, args)
      assert.ok(!isError, `${tool} was refused: ${text}`)
      done.add(tool)
      return typeof json === 'object' && json !== null ? (json as Args) : { text }
    }
    mkdirSync(join(here.root, 'groups/team/prototype'))
    const { id } = await call('post')
    for (const tool of ['send', 'reply', 'send_file', 'send_voice', 'unpin_all', 'pane_set_prompts', 'pane_set_title'])
      await call(tool)
    for (const tool of ['like', 'dislike', 'pin_message', 'unpin_message', 'edit'])
      await call(tool, { ...sampleOf(tool), targetId: id })
    for (const tool of ['forward', 'quote', 'repost']) await call(tool, { ...sampleOf(tool), sourceMsgId: id })
    await call('delete', { chatJid: OURS, targetId: id })
    const { taskId } = await call('schedule_task', { targetJid: OURS, prompt: 'x', cron: '0 0 1 1 *' })
    for (const tool of ['pause_task', 'resume_task', 'cancel_task']) await call(tool, { taskId })
    await call('delete_route', { id: (await call('add_route')).id })
    await call('set_web_route')
    await call('del_web_route')
    await call('issue_chat_link')
    await call('revoke_route_token')
    await call('set_web_host', sampleOf('set_web_host'), 'main')
    for (const tool of Object.keys(SURFACE)) if (!done.has(tool)) await call(tool)
    assert.deepEqual([...done].toSorted(), Object.keys(SURFACE).toSorted())
  })
})
