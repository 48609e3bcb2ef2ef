// Tools that an agent may call and sees listed: brackets, defaults of its tier, and its acl rows.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { declaredTiers } from '../../../test/support/tool-tiers.ts'
import { type AclRow, checkToolAccess, compilePolicy, type Membership, toolListing } from './policy.ts'
import type { Claims } from './rules.ts'

type Conditions = Partial<Pick<AclRow, 'params' | 'predicate'>>

const allow = (principal: string, action: string, scope: string, on: Conditions = {}): AclRow => ({
  ...{ principal, action, scope, effect: 'allow', params: '', predicate: '' },
  ...on,
})
const deny = (principal: string, action: string, scope: string, on: Conditions = {}): AclRow => ({
  ...allow(principal, action, scope, on),
  effect: 'deny',
})
const member = (subject: string, role: string): Membership => ({ subject, role })

const MEMBER_TOOLS = [
  'reply',
  'send',
  'send_file',
  'send_voice',
  'post',
  'forward',
  'quote',
  'repost',
  'like',
  'dislike',
  'edit',
  'delete',
]
/** The rows of a new instance. */
const SEEDED = [
  allow('role:operator', '*', '**'),
  ...MEMBER_TOOLS.map((tool) => allow('role:member', `mcp:${tool}`, '**')),
]

interface Case {
  rows?: AclRow[]
  roles?: Membership[]
  folder: string
  call: [tool: string, scope: string, params?: Claims]
  allow: boolean
  reason?: string
}

const GLOBS: Record<string, Case> = {
  'a glob of tools grants what it matches': {
    rows: [allow('folder:team', 'mcp:issue_*', 'team/**')],
    folder: 'team',
    call: ['issue_chat_link', 'team/sub'],
    allow: true,
    reason: 'issue_* is the last matching rule: folder:team mcp:issue_* on team/**',
  },
  'a glob of tools grants nothing else': {
    rows: [allow('folder:team', 'mcp:issue_*', 'team/**')],
    folder: 'team',
    call: ['revoke_route_token', 'team'],
    allow: false,
  },
  'a glob of tools applies only in its scope': {
    rows: [allow('folder:team', 'mcp:issue_*', 'team')],
    folder: 'team',
    call: ['issue_webhook', 'other'],
    allow: false,
  },
  'a glob may match the actions of one resource': {
    rows: [allow('folder:team', 'mcp:network_rules.*', 'team')],
    folder: 'team',
    call: ['network_rules.allow', 'team'],
    allow: true,
  },
  'a deny of a glob beats an allow of the name': {
    rows: [allow('folder:team', 'mcp:issue_webhook', '**'), deny('folder:team', 'mcp:*_webhook', 'team')],
    folder: 'team',
    call: ['issue_webhook', 'team'],
    allow: false,
  },
  'a deny of the name beats an allow of a glob': {
    rows: [allow('folder:team', 'mcp:issue_*', '**'), deny('folder:team', 'mcp:issue_webhook', 'team')],
    folder: 'team',
    call: ['issue_webhook', 'team'],
    allow: false,
  },
  'a bracket beats a glob': {
    rows: [allow('folder:team', 'mcp:set_*', '**')],
    folder: 'team',
    call: ['set_web_host', 'team'],
    allow: false,
  },
}

const BRACKETS: Record<string, Case> = {
  'the root may set the host map': { folder: 'main', call: ['set_web_host', 'team'], allow: true },
  'a bracket beats a wildcard grant': {
    rows: [allow('folder:team', '*', '**')],
    folder: 'team',
    call: ['set_web_host', 'team'],
    allow: false,
    reason: 'the tool set_web_host is for tier 0 only',
  },
  'a bracket beats a grant of the tool by name': {
    rows: [allow('folder:a/b/c', 'mcp:add_route', '**')],
    folder: 'a/b/c',
    call: ['add_route', 'a/b/c'],
    allow: false,
    reason: 'the tool add_route is for tiers 0 to 1',
  },
  'a bracket beats the role of operators': {
    rows: SEEDED,
    roles: [member('folder:a/b/c', 'role:operator')],
    folder: 'a/b/c',
    call: ['schedule_task', 'a/b/c'],
    allow: false,
  },
  'a bracket of 0 to 2 admits a guest': { folder: 'a/b/c', call: ['set_work', 'a/b/c'], allow: true },
  'a bracket of 0 to 2 keeps a stranger out': {
    rows: [allow('folder:a/b/c/d', 'mcp:post', '**')],
    folder: 'a/b/c/d',
    call: ['post', 'a/b/c/d'],
    allow: false,
    reason: 'the tool post is for tiers 0 to 2',
  },
  'a bracket of 0 to 1 admits an inner group': { folder: 'a/b', call: ['add_route', 'a/b'], allow: true },
  'a bracket of 0 to 1 admits a top-level folder': { folder: 'a', call: ['list_acl', 'a'], allow: true },
  'the absence of a bracket grants nothing': { folder: 'a/b/c', call: ['inject_message', 'a/b/c'], allow: false },
}

const DEFAULTS: Record<string, Case> = {
  'the root may do everything, by its rule': {
    folder: 'main',
    call: ['send', 'team'],
    allow: true,
    reason: '* is the last matching rule: default of tier 0',
  },
  'the star of the root matches names with dots': { folder: 'main', call: ['acl.list', 'team'], allow: true },
  'the root may mint': { folder: 'main', call: ['issue_chat_link', 'team/a'], allow: true },
  'the root reaches every folder': { folder: 'main', call: ['send', 'other/a/b'], allow: true },
  'the root reaches the instance': { folder: 'main', call: ['network_rules.create', ''], allow: true },
  'an inner group may send in its own folder': {
    folder: 'team',
    call: ['send', 'team'],
    allow: true,
    reason: 'send is the last matching rule: default of tier 1',
  },
  'an inner group may send below itself': { folder: 'team', call: ['send', 'team/a'], allow: true },
  'an inner group may not send elsewhere': {
    folder: 'team',
    call: ['send', 'other'],
    allow: false,
    reason: 'other is out of the reach of team, and no row allows send there',
  },
  'an inner group may not send above itself': { folder: 'team/a', call: ['send', 'team'], allow: false },
  'a folder whose name starts the same is out of reach': { folder: 'team', call: ['send', 'teams'], allow: false },
  'an inner group may schedule': { folder: 'team', call: ['schedule_task', 'team'], allow: true },
  'an inner group may replace the routes of its own folder': {
    folder: 'team',
    call: ['set_routes', 'team'],
    allow: true,
  },
  'an inner group does not have list_routes': {
    folder: 'team',
    call: ['list_routes', 'team'],
    allow: false,
    reason: 'no rule of tier 1 and no row allows list_routes on team',
  },
  'a row gives an inner group list_routes': {
    rows: [allow('folder:team', 'mcp:list_routes', 'team/**')],
    folder: 'team',
    call: ['list_routes', 'team'],
    allow: true,
  },
  'an inner group may not mint': { folder: 'team', call: ['issue_chat_link', 'team'], allow: false },
  'an inner group has no tool outside the specification': {
    folder: 'team',
    call: ['acl.list', 'team'],
    allow: false,
  },
  'a top-level folder is not the root': { folder: 'team', call: ['set_web_host', 'team'], allow: false },
  'a guest may send': { folder: 'a/b/c', call: ['send', 'a/b/c'], allow: true },
  'a guest may pin': { folder: 'a/b/c', call: ['pin_message', 'a/b/c'], allow: true },
  'a guest may read history': { folder: 'a/b/c', call: ['find_messages', 'a/b/c'], allow: true },
  'a guest may fork a topic': { folder: 'a/b/c', call: ['fork_topic', 'a/b/c'], allow: true },
  'a guest may engage': { folder: 'a/b/c', call: ['engage', 'a/b/c'], allow: true },
  'a guest may publish on its own pages': { folder: 'a/b/c', call: ['set_web_route', 'a/b/c'], allow: true },
  'a guest may not publish elsewhere': { folder: 'a/b/c', call: ['set_web_route', 'a/b'], allow: false },
  'a guest may not reset a session': { folder: 'a/b/c', call: ['reset_session', 'a/b/c'], allow: false },
  'a stranger may reply': { folder: 'a/b/c/d', call: ['reply', 'a/b/c/d'], allow: true },
  'a stranger may like': { folder: 'a/b/c/d', call: ['like', 'a/b/c/d'], allow: true },
  'a stranger may not send': {
    folder: 'a/b/c/d',
    call: ['send', 'a/b/c/d'],
    allow: false,
    reason: 'no rule of tier 3 and no row allows send on a/b/c/d',
  },
  'a stranger may not read history': { folder: 'a/b/c/d', call: ['fetch_history', 'a/b/c/d'], allow: false },
  'a deeper folder is also a stranger': { folder: 'a/b/c/d/e/f', call: ['get_work', 'a/b/c/d/e/f'], allow: false },
}

const ROWS: Record<string, Case> = {
  'a deny row beats a default': {
    rows: [deny('folder:team', 'mcp:send', '**')],
    folder: 'team',
    call: ['send', 'team'],
    allow: false,
    reason: '!send is the last matching rule: folder:team mcp:send on **',
  },
  'a deny row does not affect other tools': {
    rows: [deny('folder:team', 'mcp:send', '**')],
    folder: 'team',
    call: ['reply', 'team'],
    allow: true,
  },
  'a deny row beats the star of the root': {
    rows: [deny('folder:main', 'mcp:send', '**')],
    folder: 'main',
    call: ['send', 'team'],
    allow: false,
  },
  'a deny row applies only in its scope': {
    rows: [deny('folder:main', 'mcp:send', 'team/**')],
    folder: 'main',
    call: ['send', 'other'],
    allow: true,
  },
  'a deny row wins over an allow row in any order': {
    rows: [deny('folder:team', 'mcp:send', '**'), allow('folder:team', 'mcp:send', '**')],
    folder: 'team',
    call: ['send', 'team'],
    allow: false,
  },
  'a deny of all tools overrides the defaults': {
    rows: [deny('folder:team', 'mcp:*', '**')],
    folder: 'team',
    call: ['reply', 'team'],
    allow: false,
    reason: '!* is the last matching rule: folder:team mcp:* on **',
  },
  'a deny of admin overrides the defaults': {
    rows: [deny('folder:team', 'admin', '**')],
    folder: 'team',
    call: ['reply', 'team'],
    allow: false,
  },
  'a deny of interact does not affect tools': {
    rows: [deny('folder:team', 'interact', '**')],
    folder: 'team',
    call: ['reply', 'team'],
    allow: true,
  },
  'an allow row gives a tool that the tier does not have': {
    rows: [allow('folder:a/b/c/d', 'mcp:send', 'a/b/c/d')],
    folder: 'a/b/c/d',
    call: ['send', 'a/b/c/d'],
    allow: true,
    reason: 'send is the last matching rule: folder:a/b/c/d mcp:send on a/b/c/d',
  },
  'an allow row applies in its scope': {
    rows: [allow('folder:team', 'mcp:send', 'other/**')],
    folder: 'team',
    call: ['send', 'other/x'],
    allow: true,
  },
  'an allow row does not apply outside its scope': {
    rows: [allow('folder:team', 'mcp:send', 'other')],
    folder: 'team',
    call: ['send', 'other/x'],
    allow: false,
  },
  'an admin row counts as a rule': {
    rows: [allow('folder:a/b/c', 'admin', '**')],
    folder: 'a/b/c',
    call: ['reset_session', 'x'],
    allow: true,
    reason: '* is the last matching rule: folder:a/b/c admin on **',
  },
  'a star row counts as a rule': {
    rows: [allow('folder:a/b/c', '*', '**')],
    folder: 'a/b/c',
    call: ['reset_session', 'x'],
    allow: true,
  },
  'an interact row is not a rule': {
    rows: [allow('folder:a/b/c', 'interact', '**')],
    folder: 'a/b/c',
    call: ['reset_session', 'a/b/c'],
    allow: false,
  },
  'a row of all tools grants tools with dots': {
    rows: [allow('folder:team', 'mcp:*', '**')],
    folder: 'team',
    call: ['acl.list', 'team'],
    allow: true,
  },
  'a row of a folder does not apply to its children': {
    rows: [allow('folder:a', 'mcp:reset_session', '**')],
    folder: 'a/b/c',
    call: ['reset_session', 'a/b/c'],
    allow: false,
  },
  'a row of a subtree applies to its children': {
    rows: [allow('folder:a/**', 'mcp:reset_session', '**')],
    folder: 'a/b/c',
    call: ['reset_session', 'a/b/c'],
    allow: true,
  },
  'a row of everyone applies to agents': {
    rows: [deny('**', 'mcp:send', 'archive/**')],
    folder: 'main',
    call: ['send', 'archive/x'],
    allow: false,
  },
  'a grant lets a folder mint in its scope': {
    rows: [allow('folder:team', 'mcp:issue_chat_link', 'team/**')],
    folder: 'team',
    call: ['issue_chat_link', 'team/a'],
    allow: true,
  },
  'a grant to mint does not cover another folder': {
    rows: [allow('folder:team', 'mcp:issue_chat_link', 'team/**')],
    folder: 'team',
    call: ['issue_chat_link', 'other'],
    allow: false,
  },
  'a grant to mint for one folder does not cover its children': {
    rows: [allow('folder:team', 'mcp:issue_chat_link', 'team')],
    folder: 'team',
    call: ['issue_chat_link', 'team/a'],
    allow: false,
  },
  'a malformed row changes nothing': {
    rows: [deny('folder:team', 'mcp:send', '[')],
    folder: 'team',
    call: ['send', 'team'],
    allow: true,
  },
  'a row of a person does not apply to an agent': {
    rows: [allow('github:1', '*', '**')],
    folder: 'a/b/c',
    call: ['reset_session', 'a/b/c'],
    allow: false,
  },
  'a request for a subtree needs a row for the whole subtree': {
    rows: [allow('folder:a/b/c', 'mcp:reset_session', 'x/*')],
    folder: 'a/b/c',
    call: ['reset_session', 'x/**'],
    allow: false,
  },
  'a default covers a glob below the folder': { folder: 'team', call: ['invite_create', 'team/**'], allow: true },
  'a default does not cover a glob beside the folder': {
    folder: 'team',
    call: ['invite_create', 'team*/x'],
    allow: false,
  },
}

const PARAMS_AND_CLAIMS: Record<string, Case> = {
  'a row with params allows only those': {
    rows: [allow('folder:a/b/c/d', 'mcp:send', '**', { params: 'jid=telegram:*' })],
    folder: 'a/b/c/d',
    call: ['send', 'x', { jid: 'telegram:1' }],
    allow: true,
    reason: 'send(jid=telegram:*) is the last matching rule: folder:a/b/c/d mcp:send(jid=telegram:*) on **',
  },
  'a row with params allows no call without them': {
    rows: [allow('folder:a/b/c/d', 'mcp:send', '**', { params: 'jid=telegram:*' })],
    folder: 'a/b/c/d',
    call: ['send', 'x'],
    allow: false,
  },
  'a deny with params denies only those': {
    rows: [deny('folder:team', 'mcp:send', '**', { params: 'jid=web:*' })],
    folder: 'team',
    call: ['send', 'team', { jid: 'tg:1' }],
    allow: true,
  },
  'a deny with params denies those': {
    rows: [deny('folder:team', 'mcp:send', '**', { params: 'jid=web:*' })],
    folder: 'team',
    call: ['send', 'team', { jid: 'web:team' }],
    allow: false,
    reason: '!send(jid=web:*) is the last matching rule: folder:team mcp:send(jid=web:*) on **',
  },
  'a predicate on the folder matches the agent': {
    rows: [allow('folder:**', 'mcp:acl.list', '**', { predicate: 'folder=team' })],
    folder: 'team',
    call: ['acl.list', 'team'],
    allow: true,
  },
  'a predicate on another folder does not match': {
    rows: [allow('folder:**', 'mcp:acl.list', '**', { predicate: 'folder=team' })],
    folder: 'other',
    call: ['acl.list', 'other'],
    allow: false,
  },
  'a predicate on the tier matches the agent': {
    rows: [deny('folder:**', 'mcp:send', '**', { predicate: 'tier=2' })],
    folder: 'a/b/c',
    call: ['send', 'a/b/c'],
    allow: false,
  },
  'a predicate on another tier does not match': {
    rows: [deny('folder:**', 'mcp:send', '**', { predicate: 'tier=2' })],
    folder: 'a/b',
    call: ['send', 'a/b'],
    allow: true,
  },
  'a predicate on the world matches the agent': {
    rows: [deny('**', 'mcp:send', '**', { predicate: 'world=a' })],
    folder: 'a/b/c',
    call: ['send', 'a/b/c'],
    allow: false,
  },
  'a predicate on a claim that agents do not have fails': {
    rows: [deny('**', 'mcp:send', '**', { predicate: 'mfa=no' })],
    folder: 'team',
    call: ['send', 'team'],
    allow: true,
  },
}

const MEMBERS: Record<string, Case> = {
  'a member may send by its role': {
    rows: SEEDED,
    roles: [member('folder:a/b/c', 'role:member')],
    folder: 'a/b/c',
    call: ['send', 'a/b/c'],
    allow: true,
    reason: 'send is the last matching rule: role:member mcp:send on **',
  },
  'the role of members does not let it mint': {
    rows: SEEDED,
    roles: [member('folder:team', 'role:member')],
    folder: 'team',
    call: ['issue_webhook', 'team'],
    allow: false,
  },
  'the role of members does not let it publish elsewhere': {
    rows: SEEDED,
    roles: [member('folder:team', 'role:member')],
    folder: 'team',
    call: ['set_web_route', 'other'],
    allow: false,
  },
  'a deny of the role applies to its members': {
    rows: [...SEEDED, deny('role:member', 'mcp:send', '**')],
    roles: [member('folder:team', 'role:member')],
    folder: 'team',
    call: ['send', 'team'],
    allow: false,
  },
  'an agent made operator may mint anywhere': {
    rows: SEEDED,
    roles: [member('folder:team', 'role:operator')],
    folder: 'team',
    call: ['issue_webhook', 'other'],
    allow: true,
  },
  'a role of a role applies to an agent': {
    rows: [allow('role:b', 'mcp:issue_webhook', '**')],
    roles: [member('folder:team', 'role:a'), member('role:a', 'role:b')],
    folder: 'team',
    call: ['issue_webhook', 'x'],
    allow: true,
  },
  'the role does not apply to a folder that is not a member': {
    rows: SEEDED,
    folder: 'a/b/c/d',
    call: ['send', 'a/b/c/d'],
    allow: false,
  },
}

for (const [name, table] of Object.entries({ BRACKETS, GLOBS, DEFAULTS, ROWS, PARAMS_AND_CLAIMS, MEMBERS })) {
  suite(`checkToolAccess: ${name.toLowerCase().replaceAll('_', ' ')}`, () => {
    for (const [sentence, { rows = [], roles = [], folder, call, ...expected }] of Object.entries(table)) {
      test(sentence, () => {
        const [tool, scope, params] = call
        const question = { ...declaredTiers(tool), scope, ...(params ? { params } : {}) }
        const verdict = checkToolAccess(compilePolicy(rows, roles), folder, question)
        assert.equal(verdict.allow, expected.allow, verdict.reason)
        if (expected.reason !== undefined) assert.equal(verdict.reason, expected.reason)
      })
    }
  })
}

interface Listing {
  rows?: AclRow[]
  roles?: Membership[]
  folder: string
  tool: string
  listed: boolean
  rules?: string[]
}

const LISTINGS: Record<string, Listing> = {
  'the root sees every tool, by its star': { folder: 'main', tool: 'issue_webhook', listed: true, rules: ['*'] },
  'a default lists its tool': { folder: 'team', tool: 'send', listed: true, rules: ['send'] },
  'a tool without a matching rule is not listed': { folder: 'a/b/c/d', tool: 'send', listed: false, rules: [] },
  'a lone deny does not list a tool': {
    rows: [deny('folder:a/b/c/d', 'mcp:send', '**')],
    folder: 'a/b/c/d',
    tool: 'send',
    listed: false,
    rules: ['!send'],
  },
  'a deny after an allow leaves the tool listed, with both rules': {
    rows: [deny('folder:team', 'mcp:send', 'team/x')],
    folder: 'team',
    tool: 'send',
    listed: true,
    rules: ['send', '!send'],
  },
  'a row lists its tool for any scope': {
    rows: [allow('folder:a/b/c/d', 'mcp:send', 'elsewhere')],
    folder: 'a/b/c/d',
    tool: 'send',
    listed: true,
    rules: ['send'],
  },
  'a row lists its tool for any params': {
    rows: [allow('folder:a/b/c/d', 'mcp:send', '**', { params: 'jid=telegram:*, topic' })],
    folder: 'a/b/c/d',
    tool: 'send',
    listed: true,
    rules: ['send(jid=telegram:*,topic)'],
  },
  'a row of another tool does not list this one': {
    rows: [allow('folder:a/b/c/d', 'mcp:send_voice', '**')],
    folder: 'a/b/c/d',
    tool: 'send',
    listed: false,
  },
  'an admin row is a star': {
    rows: [allow('folder:team', 'admin', '**')],
    folder: 'team',
    tool: 'acl.list',
    listed: true,
    rules: ['*'],
  },
  'a row of all tools is a star': {
    rows: [allow('folder:team', 'mcp:*', 'x')],
    folder: 'team',
    tool: 'acl.list',
    listed: true,
    rules: ['*'],
  },
  'a deny of everything is a denied star': {
    rows: [deny('folder:team', '*', '**')],
    folder: 'team',
    tool: 'send',
    listed: false,
    rules: ['send', '!*'],
  },
  'a deny of everything that a default reaches hides the tool': {
    rows: [deny('folder:team', 'mcp:send', 'team/**')],
    folder: 'team',
    tool: 'send',
    listed: false,
    rules: ['send', '!send'],
  },
  'a deny hides a tool of the root only if it holds everywhere': {
    rows: [deny('folder:main', 'mcp:send', 'main/**')],
    folder: 'main',
    tool: 'send',
    listed: true,
  },
  'a deny everywhere hides a tool of the root': {
    rows: [deny('folder:main', 'mcp:send', '**')],
    folder: 'main',
    tool: 'send',
    listed: false,
  },
  'a deny of the folder alone leaves the tool for folders below': {
    rows: [deny('folder:team', 'mcp:delegate_group', 'team')],
    folder: 'team',
    tool: 'delegate_group',
    listed: true,
  },
  'a deny for some params leaves the tool listed': {
    rows: [deny('folder:team', 'mcp:send', '**', { params: 'jid=telegram:*' })],
    folder: 'team',
    tool: 'send',
    listed: true,
    rules: ['send', '!send(jid=telegram:*)'],
  },
  'a deny whose predicate fails leaves the tool listed': {
    rows: [deny('folder:**', 'mcp:send', '**', { predicate: 'world=other' })],
    folder: 'team',
    tool: 'send',
    listed: true,
    rules: ['send'],
  },
  'a deny hides a tool only if it covers every row that allows it': {
    rows: [
      deny('folder:a/b/c/d', 'mcp:send', 'x/**'),
      allow('folder:a/b/c/d', 'mcp:send', 'x/y'),
      allow('folder:a/b/c/d', 'mcp:send', 'z'),
    ],
    folder: 'a/b/c/d',
    tool: 'send',
    listed: true,
  },
  'a deny that covers every row that allows a tool hides it': {
    rows: [deny('folder:a/b/c/d', 'mcp:*', 'x/**'), allow('folder:a/b/c/d', 'mcp:send', 'x/y', { params: 'jid=z' })],
    folder: 'a/b/c/d',
    tool: 'send',
    listed: false,
  },
  'an interact row lists nothing': {
    rows: [allow('folder:a/b/c/d', 'interact', '**')],
    folder: 'a/b/c/d',
    tool: 'send',
    listed: false,
  },
  'a bracket hides a tool that a star allows': {
    rows: [allow('folder:team', '*', '**')],
    folder: 'team',
    tool: 'set_web_host',
    listed: false,
  },
  'a bracket hides a tool from a stranger': {
    rows: [allow('folder:a/b/c/d', 'mcp:post', '**')],
    folder: 'a/b/c/d',
    tool: 'post',
    listed: false,
  },
  'a row whose predicate fails does not list its tool': {
    rows: [allow('folder:**', 'mcp:acl.list', '**', { predicate: 'world=other' })],
    folder: 'team',
    tool: 'acl.list',
    listed: false,
    rules: [],
  },
  'a row whose predicate matches lists its tool': {
    rows: [allow('folder:**', 'mcp:acl.list', '**', { predicate: 'world=team' })],
    folder: 'team',
    tool: 'acl.list',
    listed: true,
  },
  'a malformed row lists nothing': {
    rows: [allow('folder:a/b/c/d', 'mcp:send', '[')],
    folder: 'a/b/c/d',
    tool: 'send',
    listed: false,
  },
  'a rule of both the tier and a role is shown once': {
    rows: SEEDED,
    roles: [member('folder:team', 'role:member')],
    folder: 'team',
    tool: 'send',
    listed: true,
    rules: ['send'],
  },
  'allows come before denies': {
    rows: [
      deny('folder:team', 'mcp:send', 'x'),
      allow('folder:team', 'mcp:send', 'y', { params: 'jid=z' }),
      allow('folder:team', 'mcp:*', 'z'),
    ],
    folder: 'team',
    tool: 'send',
    listed: true,
    rules: ['send', '*', 'send(jid=z)', '!send'],
  },
  'the list of routes is hidden from an inner group': { folder: 'team', tool: 'list_routes', listed: false },
  'the pins are shown to a guest': { folder: 'a/b/c', tool: 'pin_message', listed: true },
}

suite('toolListing', () => {
  for (const [sentence, { rows = [], roles = [], folder, tool, listed, rules }] of Object.entries(LISTINGS)) {
    test(sentence, () => {
      const listing = toolListing(compilePolicy(rows, roles), folder, declaredTiers(tool))
      assert.equal(listing.listed, listed)
      if (rules) assert.deepEqual(listing.rules, rules)
    })
  }
})
