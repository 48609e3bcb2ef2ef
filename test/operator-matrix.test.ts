// Verbs of the command line that the dashboard uses: every one against every kind of caller. A verb without a row fails.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { Caller, Face } from '../src/core/access/caller.ts'
import { routeTokens } from '../src/core/links/route-tokens.ts'
import { messages } from '../src/core/messages/messages.ts'
import { routes } from '../src/core/routing/routes.ts'
import { scheduledTasks } from '../src/core/schedule/tasks.ts'
import { type Turn, turns } from '../src/core/turns/turns.ts'
import { agentTools } from '../src/daemons/agents/agent-tools.ts'
import { accessVerbs } from '../src/faces/access-verbs.ts'
import { manifestVerbs } from '../src/faces/manifest/manifest-verbs.ts'
import { Refusal } from '../src/lib/refusal.ts'
import { callVerb } from '../src/registry/call.ts'
import type { NamedVerb } from '../src/registry/resource.ts'
import { resources } from '../src/resources/index.ts'
import { agent, isRefusal, person, type TestHost, testHost } from './support/host.ts'

const withSession = (sub: string): Caller => ({ kind: 'person', sub, session: 'a-session' })

/** In the order of the columns below. */
const CALLERS: readonly (readonly [name: string, Caller, Face])[] = [
  ['the host', { kind: 'host', sub: 'cli' }, 'cli'],
  ['an operator with a session', withSession('github:op'), 'dash'],
  ['the admin of team with a session', withSession('github:admin'), 'dash'],
  ['the admin of another folder with a session', withSession('github:other'), 'dash'],
  ['an operator with a restriction and a session', withSession('github:less'), 'dash'],
  ['an operator with a bearer', person('github:op'), 'rest'],
  ['an operator with a session at REST', withSession('github:op'), 'rest'],
  ['the root agent', agent('main'), 'tool'],
]

const OPERATORS = 'yes yes no no yes no no no'
/** Verbs with which a restricted operator could get back what a row takes. */
const UNRESTRICTED = 'yes yes no no no no no no'
/** A GIF image. */
const PICTURE = 'R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=='
const FOLDER = 'yes yes yes no yes no no no'
/** Lists of what the caller administers. */
const ADMINISTRATORS = 'yes yes yes yes yes no no no'
/** Reports over the folders of the person, whichever these are. */
const EVERYONE = 'yes yes yes yes yes no no no'
const OTHER_FOLDER = 'yes yes no yes yes no no no'

/** The list has only rows of folders that the person administers. */
const ANYONE_AT_DASHBOARD = 'yes yes yes yes yes no no no'

type Row = readonly [verdicts: string, input?: object]

const grant = (row: object) => ({ principal: 'github:x', action: 'interact', scope: 'team', ...row })

/** Several rows of a verb have a remark after its id. */
const MATRIX: Readonly<Record<string, Row>> = {
  'users.set_budget': [OPERATORS, { sub: 'github:x', daily: 1 }],
  'users.set_budget of oneself': [OPERATORS, { sub: 'github:admin', daily: 1 }],
  'users.budget': [OPERATORS, { sub: 'github:x' }],
  'users.budget of oneself': [FOLDER, { sub: 'github:admin' }],

  'groups.activity': [ANYONE_AT_DASHBOARD, {}],
  'accounts.list': [OPERATORS, {}],
  'accounts.show': [OPERATORS, { sub: 'github:x' }],
  'accounts.show of oneself': [FOLDER, { sub: 'github:admin' }],

  'groups.add at the top': [OPERATORS, { folder: 'new' }],
  'groups.add': [FOLDER, { folder: 'team/new' }],
  'groups.add with a chat': [OPERATORS, { folder: 'team/new', jid: 'telegram:1' }],
  'groups.create': [FOLDER, { folder: 'team/new' }],
  'groups.create at the top': [OPERATORS, { folder: 'new' }],
  'groups.files': [FOLDER, { folder: 'team' }],
  'groups.read_file': [FOLDER, { folder: 'team', name: 'PERSONA.md' }],
  'groups.write_file': [FOLDER, { folder: 'team', name: 'PERSONA.md', version: 'none', content: 'x' }],
  'groups.write_file of another': [OTHER_FOLDER, { folder: 'other', name: 'CLAUDE.md', version: 'none', content: 'x' }],
  'groups.identity': [FOLDER, { folder: 'team' }],
  'groups.picture': [FOLDER, { folder: 'team' }],
  'groups.upload_picture': [FOLDER, { folder: 'team', content: PICTURE }],
  'groups.remove_skill': [FOLDER, { folder: 'team', skill: 'report' }],
  'groups.skills': [FOLDER, { folder: 'team' }],
  'groups.removal': [FOLDER, { folder: 'team' }],
  'groups.remove': [FOLDER, { folder: 'team' }],
  'groups.show': [FOLDER, { folder: 'team' }],
  'groups.show of another': [OTHER_FOLDER, { folder: 'other' }],
  'groups.set': [FOLDER, { folder: 'team', key: 'model', to: 'x' }],
  'groups.set of the program': [OPERATORS, { folder: 'team', key: 'command', to: 'x' }],
  'groups.set of the runtime': [OPERATORS, { folder: 'team', key: 'runtime', to: 'x' }],
  'groups.set of the permissions': [OPERATORS, { folder: 'team', key: 'permission_mode', to: 'x' }],
  'groups.set of a limit': [OPERATORS, { folder: 'team', key: 'max_children', to: '9' }],
  'groups.set_budget': [OPERATORS, { folder: 'team', daily: 1 }],
  'groups.set_budget below': [FOLDER, { folder: 'team/sub', daily: 1 }],
  'groups.budget': [FOLDER, { folder: 'team' }],

  'conversations.list': [FOLDER, { folder: 'team' }],
  'conversations.history': [FOLDER, { folder: 'team', topic: '' }],
  'conversations.reset': [FOLDER, { folder: 'team' }],
  'conversations.reset of another': [OTHER_FOLDER, { folder: 'other' }],
  'conversations.fork': [FOLDER, { folder: 'team', parent: '', child: 'x' }],

  'acl.grant': [FOLDER, grant({})],
  'acl.grant of admin': [FOLDER, grant({ action: 'admin', scope: 'team/**' })],
  'acl.grant of a tool': [FOLDER, grant({ action: 'mcp:send' })],
  'acl.grant of all tools': [OPERATORS, grant({ action: 'mcp:*' })],
  'acl.grant of everything': [OPERATORS, grant({ action: '*' })],
  'acl.grant of assume': [OPERATORS, grant({ action: 'assume' })],
  'acl.grant of a hold': [OPERATORS, grant({ action: 'hold:mcp:send' })],
  'acl.grant of a denial': [OPERATORS, grant({ effect: 'deny' })],
  'acl.grant on the instance': [UNRESTRICTED, grant({ scope: '**' })],
  'acl.grant on more than the folder': [UNRESTRICTED, grant({ scope: '*' })],
  'acl.grant in a restricted folder': ['yes yes no no no no no no', grant({ scope: 'closed' })],
  'acl.ungrant': [FOLDER, grant({})],
  'acl.ungrant_effects': [FOLDER, grant({})],
  'acl.ungrant of a denial': [OPERATORS, grant({ effect: 'deny' })],

  'acl.of_folder': [FOLDER, { folder: 'team' }],
  'acl.of_folder of another': [OTHER_FOLDER, { folder: 'other' }],

  'routes.of_folder': [FOLDER, { folder: 'team' }],
  'routes.move': [FOLDER, { id: 1, to: 'up' }],
  'routes.move of nothing': [OPERATORS, { id: 99, to: 'up' }],
  'web_hosts.bind': [OPERATORS, { hostname: 'shop.example.com', folder: 'team' }],
  'web_routes.of_folder': [FOLDER, { folder: 'team' }],
  'web_routes.publish': [FOLDER, { folder: 'team', slot: 'pub', name: 'a.html', content: '' }],
  'web_routes.publish of another': [OTHER_FOLDER, { folder: 'other', slot: 'pub', name: 'a.html', content: '' }],
  'web_routes.unpublish': [FOLDER, { folder: 'team', slot: 'pub', name: 'a.html' }],

  'acl_membership.list': [OPERATORS, {}],
  'acl_membership.add': [UNRESTRICTED, { subject: 'github:x', role: 'role:member' }],
  'acl_membership.remove': [UNRESTRICTED, { subject: 'github:x', role: 'role:member' }],

  'acl_membership.remove_effects': [UNRESTRICTED, { subject: 'github:x', role: 'role:member' }],

  'access.explain': [FOLDER, { principal: 'github:x', folder: 'team' }],
  'access.explain of another folder': [OTHER_FOLDER, { principal: 'github:x', folder: 'other' }],
  'access.explain of oneself': ['yes yes yes yes yes no no no', { principal: 'github:admin', folder: 'other' }],
  'access.who': [FOLDER, { folder: 'team' }],
  'access.who of another folder': [OTHER_FOLDER, { folder: 'other' }],

  'settings.list': [OPERATORS, {}],
  'settings.save': [OPERATORS, { changes: [{ key: 'KEEP_TURNS', value: '1h' }] }],
  'model_keys.set': [OPERATORS, { variable: 'OPENAI_API_KEY', endpoint: 'https://x.example', value: 'x' }],
  'model_keys.list': [OPERATORS, {}],
  'model_keys.set_instance': [OPERATORS, { changes: [{ variable: 'AGENT_RUNTIME', value: 'demo' }] }],
  'model_keys.clear': [OPERATORS, { variable: 'OPENAI_API_KEY' }],
  'model_keys.set_folder': [FOLDER, { folder: 'team', config: '{"model":"x"}', cleared: [], secrets: [] }],
  'model_keys.set_folder with a program': [
    OPERATORS,
    { folder: 'team', config: '{"command":"x"}', cleared: [], secrets: [] },
  ],

  'channel_accounts.list': [OPERATORS, {}],
  'channel_accounts.add': [
    OPERATORS,
    {
      account: 'telegram-a',
      platform: 'telegram',
      settings: {},
      secrets: { token: '123456789:abcdefghijklmnopqrstu' },
    },
  ],
  'channel_accounts.set': [OPERATORS, { account: 'telegram-a', name: 'dm', value: 'open' }],
  'channel_accounts.remove': [OPERATORS, { account: 'telegram-a' }],
  'channel_secrets.list': [OPERATORS, {}],
  'channel_secrets.add': [OPERATORS, { name: 'a', platforms: ['telegram'] }],
  'channel_secrets.rotate': [OPERATORS, { name: 'a' }],
  'channel_secrets.remove': [OPERATORS, { name: 'a' }],

  'channel_registrations.list': [OPERATORS, {}],
  'channel_registrations.undelivered': [OPERATORS, {}],

  'secrets.list_of': [FOLDER, { scope_kind: 'folder', owner: 'team' }],
  'secrets.list_of another person': [OPERATORS, { scope_kind: 'user', owner: 'github:x' }],
  'secrets.list_of oneself': [FOLDER, { scope_kind: 'user', owner: 'github:admin' }],

  'inbox.states': [FOLDER, { folder: 'team' }],
  'inbox.states of all': [OPERATORS, {}],
  'inbox.details': [FOLDER, { id: 'to-team' }],
  'inbox.details of another folder': [OTHER_FOLDER, { id: 'to-other' }],
  'inbox.details of nothing': [OPERATORS, { id: 'none' }],
  'inbox.ids': [OPERATORS, { prefix: 'to' }],
  'inbox.list': [FOLDER, { folder: 'team' }],
  'inbox.list of all that they administer': [ADMINISTRATORS, {}],
  'inbox.search': [FOLDER, { folder: 'team', query: 'x' }],
  'inbox.search of all that they administer': [ADMINISTRATORS, { query: 'x' }],
  'inbox.log': [FOLDER, { id: 'to-team' }],
  'inbox.log of another folder': [OTHER_FOLDER, { id: 'to-other' }],
  'inbox.retry': [FOLDER, { id: 'to-team' }],
  'inbox.retry of another folder': [OTHER_FOLDER, { id: 'to-other' }],
  'inbox.retry of nothing': [OPERATORS, { id: 'none' }],
  'inbox.retry_all': [FOLDER, { ids: ['to-team'] }],
  'inbox.retry_all of several folders': [OPERATORS, { ids: ['to-team', 'to-other'] }],

  'turns.list': [FOLDER, { folder: 'team' }],
  'turns.list of all': [EVERYONE, {}],
  'turns.show': [FOLDER, { id: 'turn-of-team' }],
  'turns.log': [FOLDER, { id: 'turn-of-team' }],
  'turns.log of nothing': [OPERATORS, { id: 'none' }],
  'turns.show of nothing': [OPERATORS, { id: 'none' }],
  'turns.running': [FOLDER, { folder: 'team' }],
  'turns.running of all': [EVERYONE, {}],
  'turns.ids': [OPERATORS, { prefix: 'turn' }],
  'turns.stop': [FOLDER, { id: 'turn-of-team' }],
  'turns.stop of nothing': [OPERATORS, { id: 'none' }],
  'pending_actions.list': [EVERYONE, {}],
  'pending_actions.decide': [OPERATORS, { id: 'x', decision: 'approve' }],
  'cost_log.spend': [FOLDER, { by: 'day', folder: 'team' }],
  'cost_log.spend of all': [EVERYONE, { by: 'day' }],
  'cost_log.near_cap': [EVERYONE, {}],
  'cost_log.own': [EVERYONE, {}],
  'folder_turns.attention': [EVERYONE, {}],
  'folder_turns.day': [EVERYONE, {}],

  'scheduled_tasks.show': [FOLDER, { id: 'task-of-team' }],
  'scheduled_tasks.show of nothing': [OPERATORS, { id: 'none' }],
  'scheduled_tasks.list_of': [FOLDER, { folder: 'team' }],
  'scheduled_tasks.list_of oneself': ['yes yes yes yes yes no no no', {}],
  'scheduled_tasks.run': [FOLDER, { id: 'task-of-team' }],

  'identities.list': [OPERATORS, {}],
  'identities.link': [UNRESTRICTED, { sub: 'github:x' }],
  'identities.unlink': [UNRESTRICTED, { sub: 'github:x' }],

  'route_tokens.issue_operator_hook': [
    FOLDER,
    { target_folder: 'team', source_label: 'ci', verify: 'github', verify_secret: 'secret' },
  ],
  'route_tokens.issue_apart': [FOLDER, { target_folder: 'team', jid_suffix: 'apart' }],
  'route_tokens.list_of': [FOLDER, { folder: 'team' }],
  'route_tokens.list_of all': [OPERATORS, {}],
  'route_tokens.deliveries': [FOLDER, { jid: 'hook:team/ci' }],
  'route_tokens.deliveries of another folder': [OTHER_FOLDER, { jid: 'hook:other/ci' }],
  'route_tokens.deliver_test': [FOLDER, { jid: 'hook:team/ci' }],
  'route_tokens.deliver_test of another folder': [OTHER_FOLDER, { jid: 'hook:other/ci' }],
  'route_tokens.deliver_test of nothing': [OPERATORS, { jid: 'hook:team/none' }],
  'route_tokens.replay': [FOLDER, { id: 'to-team' }],
  'route_tokens.replay of another folder': [OTHER_FOLDER, { id: 'to-other' }],
  'route_tokens.replay of nothing': [OPERATORS, { id: 'none' }],

  'installed_packages.install': [UNRESTRICTED, { name: 'x', source: '/x', revision: '1' }],
  'installed_packages.remove': [UNRESTRICTED, { name: 'x', revision: '1' }],

  'signing_keys.rotate': [OPERATORS, {}],

  'sessions.delete_all': [OPERATORS, { sub: 'local:x' }],
  'bearers.revoke_all': [OPERATORS, { sub: 'local:x' }],
  'onboarding.queue': [OPERATORS, {}],
  'onboarding.find_pairing': [OPERATORS, { code: 'BCDFGH' }],
  'sessions.create_link': [UNRESTRICTED, { sub: 'local:x' }],

  'config.export': [OPERATORS, {}],
  'config.apply': [UNRESTRICTED, { manifest: 'config_version: 0\n' }],
}

function turnOf(folder: string, started_at: string): Turn {
  return {
    ...{ id: `turn-of-${folder}`, folder, topic: '', jid: `web:${folder}`, chat_topic: '', sender: 'anon:1' },
    ...{ first_seq: 1, last_seq: 1, message_count: 1, state: 'running', attempts: 1, fence: 1, leased_until: 0 },
    ...{ run_after: 0, replies: 0, depth: 0, is_isolated: false, is_timed: false, is_guest: false },
    ...{ is_stopping: false, started_at },
  }
}

const verbs: readonly NamedVerb[] = [
  ...resources.flatMap((each) => Object.values(each.verbs)),
  ...Object.values(manifestVerbs(resources)),
  ...Object.values(accessVerbs(agentTools().tools.values())),
]
const operatorVerbs = verbs.filter(({ authorize }) => 'isForOperators' in authorize)

/** Checks the access of a call without running it. */
function checkOnly({ prepare: _, ...verb }: NamedVerb): NamedVerb {
  return { ...verb, run: async () => undefined, auditInput: () => undefined }
}

async function verdict(
  { host }: TestHost,
  verb: NamedVerb,
  caller: Caller,
  face: Face,
  input: object,
): Promise<string> {
  try {
    await callVerb({ host, caller, face }, checkOnly(verb), input)
    return 'yes'
  } catch (error) {
    if (error instanceof Refusal && error.code === 'forbidden') return 'no'
    throw error
  }
}

test('every verb for operators has a row', () => {
  const tested = new Set(Object.keys(MATRIX).map((name) => name.split(' ')[0] ?? ''))
  assert.deepEqual([...tested].sort(), operatorVerbs.map(({ id }) => id).sort())
})

suite('verbs for operators', () => {
  test('are allowed on the command line, and to administrators with a session', async (t) => {
    const on = await testHost(t)
    await on.groups('main', 'team', 'team/sub', 'other', 'closed')
    await on.grant('github:admin', 'admin', 'team/**')
    await on.grant('github:other', 'admin', 'other/**')
    for (const sub of ['github:op', 'github:less']) await on.operator(sub)
    await on.grant('github:less', 'mcp:send', 'closed', 'deny')
    await on.host.engine.transaction(async (tx) => {
      const now = '2026-01-01T00:00:00.000Z'
      for (const folder of ['team', 'other']) {
        const id = `to-${folder}`
        const content = Buffer.from('x')
        const row = { id, jid: `web:${folder}`, direction: 'in', kind: 'message', sender: 'anon:1', content } as const
        await messages.insertReturning(tx, { ...row, target_folder: folder, created_at: now })
        await routeTokens.insert(tx, {
          token_hash: Buffer.from(folder),
          jid: `hook:${folder}/ci`,
          owner_folder: 'main',
          target_folder: folder,
          created_at: now,
        })
      }
      await turns.insert(tx, turnOf('team', now))
      await routes.insert(tx, { id: 1, seq: 0, match: 'room=1', target: 'team' })
      await scheduledTasks.insert(tx, {
        id: 'task-of-team',
        owner: 'team',
        chat_jid: 'web:team',
        prompt: 'x',
        cron: '0 0 * * *',
        status: 'paused',
        context_mode: 'group',
        created_at: now,
      })
    })
    const found: Record<string, string> = {}
    for (const [name, [, input = {}]] of Object.entries(MATRIX)) {
      const verb = operatorVerbs.find(({ id }) => id === name.split(' ')[0])
      assert.ok(verb, name)
      const verdicts: string[] = []
      for (const [, caller, face] of CALLERS) verdicts.push(await verdict(on, verb, caller, face, input))
      found[name] = verdicts.join(' ')
    }
    assert.deepEqual(found, Object.fromEntries(Object.entries(MATRIX).map(([name, [verdicts]]) => [name, verdicts])))
  })
})

test('the face of the dashboard needs the session of a person', async (t) => {
  const { host, operator } = await testHost(t)
  await operator('github:op')
  const list = verbs.find(({ id }) => id === 'acl_membership.list')
  assert.ok(list)
  for (const caller of [person('github:op'), { kind: 'service', sub: 'service:webd' }, agent('main')] as const)
    await assert.rejects(
      callVerb({ host, caller, face: 'dash' }, list, {}),
      isRefusal('forbidden', 'acl_membership.list: only a person with a session can use the pages'),
    )
})

test('refusals at REST and to agents name the command line, at the dashboard neither folder nor row', async (t) => {
  const { host, groups } = await testHost(t)
  await groups('main', 'team')
  const show = verbs.find(({ id }) => id === 'scheduled_tasks.show')
  assert.ok(show)
  for (const [caller, face] of [
    [withSession('github:op'), 'rest'],
    [agent('team'), 'tool'],
  ] as const)
    await assert.rejects(
      callVerb({ host, caller, face }, show, { id: 'x' }),
      isRefusal('forbidden', /^scheduled_tasks\.show is for the command line on the host$/),
    )
  await assert.rejects(
    callVerb({ host, caller: withSession('github:x'), face: 'dash' }, show, { id: 'x' }),
    isRefusal('forbidden', /^scheduled_tasks\.show: not permitted: you do not administer this, or it does not exist$/),
  )
})
