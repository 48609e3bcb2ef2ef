// Decisions by acl rows only. policy-tools.test.ts covers agents and tools, policy-operators.test.ts operators.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { type AclRow, checkAccess, compilePolicy, type Membership } from './policy.ts'
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

interface Case {
  rows: AclRow[]
  roles?: Membership[]
  /** The principal, if it is not github:1. */
  who?: string
  claims?: Claims
  ask: [action: string, scope: string, params?: Claims]
  allow: boolean
  reason?: string
}

const OPERATOR_ROW = allow('role:operator', '*', '**')

const EVALUATION: Record<string, Case> = {
  'without any row access is denied': {
    rows: [],
    ask: ['mcp:send', 'team'],
    allow: false,
    reason: 'no row allows mcp:send on team',
  },
  'a row allows its action and scope': {
    rows: [allow('github:1', 'admin', 'team')],
    ask: ['admin', 'team'],
    allow: true,
    reason: 'allowed by acl: github:1 admin on team',
  },
  'a row of someone else allows nothing': {
    rows: [allow('github:2', 'admin', 'team')],
    ask: ['admin', 'team'],
    allow: false,
  },
  'principals are case-sensitive': {
    rows: [allow('GitHub:1', 'admin', 'team')],
    ask: ['admin', 'team'],
    allow: false,
  },
  'a principal does not match its prefix': {
    rows: [allow('github:1', 'admin', 'team')],
    who: 'github:11',
    ask: ['admin', 'team'],
    allow: false,
  },
  'a deny wins over an allow': {
    rows: [allow('github:1', 'admin', 'team'), deny('github:1', 'admin', 'team')],
    ask: ['admin', 'team'],
    allow: false,
    reason: 'denied by acl: github:1 admin on team',
  },
  'a deny wins when it comes first': {
    rows: [deny('github:1', 'admin', 'team'), allow('github:1', 'admin', 'team')],
    ask: ['admin', 'team'],
    allow: false,
  },
  'a wide deny wins over a narrow allow': {
    rows: [deny('github:1', '*', '**'), allow('github:1', 'mcp:send', 'team')],
    ask: ['mcp:send', 'team'],
    allow: false,
  },
  'a narrow deny wins over a wide allow': {
    rows: [allow('github:1', '*', '**'), deny('github:1', 'mcp:send', 'team')],
    ask: ['mcp:send', 'team'],
    allow: false,
  },
  'a narrow deny does not affect the rest': {
    rows: [allow('github:1', '*', '**'), deny('github:1', 'mcp:send', 'team')],
    ask: ['mcp:reply', 'team'],
    allow: true,
  },
  'a narrow deny does not affect other folders': {
    rows: [allow('github:1', '*', '**'), deny('github:1', 'mcp:send', 'team')],
    ask: ['mcp:send', 'other'],
    allow: true,
  },
  'a deny row alone is given as the reason': {
    rows: [deny('github:1', 'admin', 'team/**')],
    ask: ['admin', 'team/a'],
    allow: false,
    reason: 'denied by acl: github:1 admin on team/**',
  },
  'a deny of another principal has no effect': {
    rows: [allow('github:1', 'admin', 'team'), deny('github:2', 'admin', 'team')],
    ask: ['admin', 'team'],
    allow: true,
  },
  'a reason names the conditions of its row': {
    rows: [allow('github:1', 'mcp:send', 'team', { params: 'jid=web:*', predicate: 'mfa=yes' })],
    claims: { mfa: 'yes' },
    ask: ['mcp:send', 'team', { jid: 'web:team' }],
    allow: true,
    reason: 'allowed by acl: github:1 mcp:send(jid=web:*) on team if (mfa=yes)',
  },
}

/** Whether admin on the first scope includes admin on the second. */
const COVERAGE: Record<string, [granted: string, requested: string, covered: boolean]> = {
  'a bare folder scope does not cover its children': ['acme', 'acme/x', false],
  'a bare folder scope covers itself': ['acme', 'acme', true],
  'scopes are case-sensitive': ['Acme', 'acme', false],
  'everything covers any folder': ['**', 'a/b/c', true],
  'everything covers the instance itself': ['**', '', true],
  'all top-level folders are not the instance': ['*', '', false],
  'a star covers every top-level folder': ['*', 'acme', true],
  'a star covers no deeper folder': ['*', 'acme/x', false],
  'a star below a folder covers its children': ['acme/*', 'acme/x', true],
  'a star below a folder does not cover the folder': ['acme/*', 'acme', false],
  'a star below a folder does not cover grandchildren': ['acme/*', 'acme/x/y', false],
  'a subtree covers its root': ['acme/**', 'acme', true],
  'a subtree covers its children': ['acme/**', 'acme/x', true],
  'a subtree covers its grandchildren': ['acme/**', 'acme/x/y', true],
  'a subtree does not cover a name that starts the same': ['acme/**', 'acmex', false],
  'a deep subtree covers the folders below it': ['a/b/**', 'a/b/c/d', true],
  'a deep subtree does not cover its parent': ['a/b/**', 'a', false],
  'one segment and then a name': ['*/eng', 'acme/eng', true],
  'one segment and then a name is not the name alone': ['*/eng', 'eng', false],
  'any depth and then a name': ['**/eng', 'a/b/eng', true],
  'a star inside a segment': ['a*', 'acme', true],
  'a star inside a segment does not cross it': ['a*', 'acme/x', false],
  'a question mark is one character': ['team?', 'team1', true],
  'a set of characters': ['team[ab]', 'teamb', true],
  'a set of characters matches no other': ['team[ab]', 'teamc', false],
}

const SCOPES: Record<string, Case> = {
  'a deny by glob wins over an allow by name': {
    rows: [allow('github:1', 'admin', 'a/b'), deny('github:1', 'admin', 'a/*')],
    ask: ['admin', 'a/b'],
    allow: false,
  },
}

/** The same for a glob, which requests all folders it matches. */
const GLOB_COVERAGE: Record<string, [granted: string, requested: string, covered: boolean]> = {
  'a subtree covers a part of it': ['acme/**', 'acme/eng/**', true],
  'a subtree covers itself': ['acme/**', 'acme/**', true],
  'the children do not cover the subtree': ['acme/*', 'acme/**', false],
  'a folder does not cover its subtree': ['acme', 'acme/**', false],
  'a subtree does not cover everything': ['acme/**', '**', false],
  'all top-level folders do not cover everything': ['*', '**', false],
}

const WHOLE_GLOBS: Record<string, Case> = {
  'an operator covers everything': {
    rows: [OPERATOR_ROW],
    roles: [member('github:1', 'role:operator')],
    ask: ['admin', '**'],
    allow: true,
  },
  'a deny inside a glob refuses the glob': {
    rows: [allow('github:1', 'admin', 'acme/**'), deny('github:1', 'admin', 'acme/hr')],
    ask: ['admin', 'acme/**'],
    allow: false,
  },
  'a deny elsewhere does not refuse the glob': {
    rows: [allow('github:1', 'admin', '**'), deny('github:1', 'admin', 'other/**')],
    ask: ['admin', 'acme/**'],
    allow: true,
  },
}

/** Whether the first action includes the second. */
const ACTION_COVERAGE: Record<string, [granted: string, requested: string, contained: boolean]> = {
  'a star contains admin': ['*', 'admin', true],
  'a star contains interact': ['*', 'interact', true],
  'a star contains assume': ['*', 'assume', true],
  'a star contains every tool': ['*', 'mcp:send', true],
  'a star contains itself': ['*', '*', true],
  'admin contains interact': ['admin', 'interact', true],
  'admin contains every tool': ['admin', 'mcp:send', true],
  'admin contains all tools at once': ['admin', 'mcp:*', true],
  'admin does not contain assume': ['admin', 'assume', false],
  'admin does not contain everything': ['admin', '*', false],
  'interact contains only itself': ['interact', 'interact', true],
  'interact does not contain admin': ['interact', 'admin', false],
  'interact does not contain a tool': ['interact', 'mcp:send', false],
  'assume contains itself': ['assume', 'assume', true],
  'assume contains nothing else': ['assume', 'interact', false],
  'all tools contain every tool': ['mcp:*', 'mcp:send', true],
  'all tools contain tools with a dot': ['mcp:*', 'mcp:acl.list', true],
  'all tools do not imply admin': ['mcp:*', 'admin', false],
  'all tools do not imply interact': ['mcp:*', 'interact', false],
  'all tools do not imply assume': ['mcp:*', 'assume', false],
  'one tool contains itself': ['mcp:send', 'mcp:send', true],
  'one tool does not contain a tool whose name starts the same': ['mcp:send', 'mcp:send_file', false],
  'one tool does not contain all tools': ['mcp:send', 'mcp:*', false],
  'a glob of tools contains the tools it matches': ['mcp:send*', 'mcp:send_file', true],
  'a glob of tools contains its prefix': ['mcp:send*', 'mcp:send', true],
  'a glob of tools contains no other tool': ['mcp:send*', 'mcp:resend', false],
  'a glob of tools does not contain all tools': ['mcp:send*', 'mcp:*', false],
  'a glob of tools does not imply admin': ['mcp:a*', 'admin', false],
  'a glob of tools is not a hold': ['mcp:send*', 'hold:mcp:send', false],
  'a hold of a glob covers the tools it matches': ['hold:mcp:send*', 'hold:mcp:send_file', true],
  'one tool with a dot contains itself': ['mcp:acl.list', 'mcp:acl.list', true],
  'only a star includes an unknown action': ['admin', 'fly', false],
}

const ACTIONS: Record<string, Case> = {
  'a deny of admin denies every tool': {
    rows: [allow('github:1', 'mcp:send', 'team'), deny('github:1', 'admin', 'team')],
    ask: ['mcp:send', 'team'],
    allow: false,
  },
  'a deny of all tools does not affect admin': {
    rows: [allow('github:1', 'admin', 'team'), deny('github:1', 'mcp:*', 'team')],
    ask: ['admin', 'team'],
    allow: true,
  },
  'a deny of all tools denies one': {
    rows: [allow('github:1', 'admin', 'team'), deny('github:1', 'mcp:*', 'team')],
    ask: ['mcp:send', 'team'],
    allow: false,
  },
  'a deny of admin does not affect assume': {
    rows: [allow('github:1', '*', 'team'), deny('github:1', 'admin', 'team')],
    ask: ['assume', 'team'],
    allow: true,
  },
}

const PRINCIPALS: Record<string, Case> = {
  '** matches everyone': {
    rows: [allow('**', 'interact', 'team')],
    who: 'anon:ab12',
    ask: ['interact', 'team'],
    allow: true,
  },
  'a star after a provider matches everyone of that provider': {
    rows: [allow('google:*', 'interact', 'team')],
    who: 'google:7',
    ask: ['interact', 'team'],
    allow: true,
  },
  'a star after a provider matches no other provider': {
    rows: [allow('google:*', 'interact', 'team')],
    ask: ['interact', 'team'],
    allow: false,
  },
  'a star after a provider matches one segment': {
    rows: [allow('telegram:*', 'interact', 'team')],
    who: 'telegram:user/1',
    ask: ['interact', 'team'],
    allow: false,
  },
  'a platform identity is matched by its path': {
    rows: [allow('telegram:user/*', 'interact', 'team')],
    who: 'telegram:user/1',
    ask: ['interact', 'team'],
    allow: true,
  },
  'the namespace may be a glob': { rows: [allow('g*:1', 'interact', 'team')], ask: ['interact', 'team'], allow: true },
  'a folder subtree as principal includes its root': {
    rows: [allow('folder:acme/**', 'mcp:send', '**')],
    who: 'folder:acme',
    ask: ['mcp:send', 'team'],
    allow: true,
  },
  'a folder subtree as principal includes its children': {
    rows: [allow('folder:acme/**', 'mcp:send', '**')],
    who: 'folder:acme/x/y',
    ask: ['mcp:send', 'team'],
    allow: true,
  },
  'a folder subtree as principal excludes other folders': {
    rows: [allow('folder:acme/**', 'mcp:send', '**')],
    who: 'folder:acmex',
    ask: ['mcp:send', 'team'],
    allow: false,
  },
  'a principal is split at the first colon only': {
    rows: [allow('slack:T1:*', 'interact', 'team')],
    who: 'slack:T1:U2',
    ask: ['interact', 'team'],
    allow: true,
  },
  'a star does not match beyond the namespace': {
    rows: [allow('git*', 'interact', 'team')],
    ask: ['interact', 'team'],
    allow: false,
  },
  'a star alone is not everyone': { rows: [allow('*', 'interact', 'team')], ask: ['interact', 'team'], allow: false },
  'a room may be a principal': {
    rows: [allow('discord:1/2', 'interact', 'team')],
    who: 'discord:1/2',
    ask: ['interact', 'team'],
    allow: true,
  },
  'a provider glob does not match an anonymous visitor': {
    rows: [allow('google:*', 'interact', 'team')],
    who: 'google:',
    ask: ['interact', 'team'],
    allow: false,
  },
  'a deny of everyone denies the operator too': {
    rows: [OPERATOR_ROW, deny('**', 'admin', 'archive/**')],
    roles: [member('github:1', 'role:operator')],
    ask: ['admin', 'archive/2020'],
    allow: false,
    reason: 'denied by acl: ** admin on archive/**',
  },
  'a deny of a provider denies its people': {
    rows: [allow('github:1', 'admin', 'team'), deny('github:*', 'admin', 'team')],
    ask: ['admin', 'team'],
    allow: false,
  },
  'a deny of every role denies its members': {
    rows: [allow('github:1', 'admin', 'team'), deny('role:*', 'admin', 'team')],
    roles: [member('github:1', 'role:x')],
    ask: ['admin', 'team'],
    allow: false,
  },
}

const ROLES: Record<string, Case> = {
  'a member has the rights of its role': {
    rows: [OPERATOR_ROW],
    roles: [member('github:1', 'role:operator')],
    ask: ['assume', 'a/b'],
    allow: true,
    reason: 'allowed by acl: role:operator * on **',
  },
  'a non-member has no rights of a role': {
    rows: [OPERATOR_ROW],
    roles: [member('github:2', 'role:operator')],
    ask: ['admin', 'a'],
    allow: false,
  },
  'membership is transitive': {
    rows: [allow('role:c', 'admin', 'team')],
    roles: [member('github:1', 'role:a'), member('role:a', 'role:b'), member('role:b', 'role:c')],
    ask: ['admin', 'team'],
    allow: true,
  },
  'a role does not have the rights of its members': {
    rows: [allow('role:a', 'admin', 'team')],
    roles: [member('role:a', 'role:b'), member('github:1', 'role:b')],
    ask: ['admin', 'team'],
    allow: false,
  },
  'a deny of a role of a role wins over an own allow': {
    rows: [allow('github:1', 'admin', 'team'), deny('role:b', 'admin', 'team')],
    roles: [member('github:1', 'role:a'), member('role:a', 'role:b')],
    ask: ['admin', 'team'],
    allow: false,
  },
  'a cycle in the store terminates': {
    rows: [allow('role:b', 'admin', 'team')],
    roles: [
      member('github:1', 'role:a'),
      member('role:a', 'role:b'),
      member('role:b', 'role:a'),
      member('role:a', 'role:a'),
    ],
    ask: ['admin', 'team'],
    allow: true,
  },
  'several roles add up': {
    rows: [allow('role:a', 'admin', 'x'), allow('role:b', 'admin', 'team')],
    roles: [member('github:1', 'role:a'), member('github:1', 'role:b')],
    ask: ['admin', 'team'],
    allow: true,
  },
  'a membership of a glob has no members': {
    rows: [OPERATOR_ROW],
    roles: [member('github:*', 'role:operator')],
    ask: ['admin', 'team'],
    allow: false,
  },
  'a row of a role does not apply to its bare name': {
    rows: [allow('role:oper', '*', '**')],
    roles: [member('github:1', 'role:operator')],
    ask: ['admin', 'team'],
    allow: false,
  },
}

const send = (params: string): AclRow => allow('github:1', 'mcp:send', 'team', { params })
const when = (predicate: string): AclRow => allow('github:1', 'admin', 'team', { predicate })

const CONDITIONS: Record<string, Case> = {
  'a parameter must match': {
    rows: [send('jid=telegram:*')],
    ask: ['mcp:send', 'team', { jid: 'telegram:user/1' }],
    allow: true,
  },
  'another value fails the row': {
    rows: [send('jid=telegram:*')],
    ask: ['mcp:send', 'team', { jid: 'web:x' }],
    allow: false,
  },
  'a missing parameter fails the row': { rows: [send('jid=telegram:*')], ask: ['mcp:send', 'team'], allow: false },
  'a star for a value still requires the parameter': {
    rows: [send('jid=*')],
    ask: ['mcp:send', 'team', {}],
    allow: false,
  },
  'a bare key requires the parameter': { rows: [send('jid')], ask: ['mcp:send', 'team', { jid: '' }], allow: true },
  'a bare key fails without it': { rows: [send('jid')], ask: ['mcp:send', 'team', { topic: 'x' }], allow: false },
  'both of two parameters are required': {
    rows: [send('jid=*,topic=a')],
    ask: ['mcp:send', 'team', { jid: 'x' }],
    allow: false,
  },
  'two parameters that match': {
    rows: [send('jid=*, topic=a')],
    ask: ['mcp:send', 'team', { jid: 'x', topic: 'a' }],
    allow: true,
  },
  'a star in a value matches any character': {
    rows: [send('jid=a*z')],
    ask: ['mcp:send', 'team', { jid: 'a/:,)z' }],
    allow: true,
  },
  'additional parameters are ignored': {
    rows: [send('jid=x')],
    ask: ['mcp:send', 'team', { jid: 'x', text: 'y' }],
    allow: true,
  },
  'a deny with a parameter denies only that': {
    rows: [allow('github:1', 'mcp:send', 'team'), deny('github:1', 'mcp:send', 'team', { params: 'jid=web:*' })],
    ask: ['mcp:send', 'team', { jid: 'web:x' }],
    allow: false,
  },
  'a deny with a parameter does not affect other calls': {
    rows: [allow('github:1', 'mcp:send', 'team'), deny('github:1', 'mcp:send', 'team', { params: 'jid=web:*' })],
    ask: ['mcp:send', 'team', { jid: 'tg:x' }],
    allow: true,
  },
  'an inherited object member does not count as a parameter': {
    rows: [send('toString')],
    ask: ['mcp:send', 'team', {}],
    allow: false,
  },
  'a predicate is matched against the claims': {
    rows: [when('mfa=yes')],
    claims: { mfa: 'yes' },
    ask: ['admin', 'team'],
    allow: true,
  },
  'another claim fails the row': {
    rows: [when('mfa=yes')],
    claims: { mfa: 'no' },
    ask: ['admin', 'team'],
    allow: false,
  },
  'a missing claim fails the row': { rows: [when('mfa=yes')], ask: ['admin', 'team'], allow: false },
  'a bare claim must be present': { rows: [when('org')], claims: { org: 'x' }, ask: ['admin', 'team'], allow: true },
  'a parameter does not count as a claim': {
    rows: [when('mfa=yes')],
    ask: ['admin', 'team', { mfa: 'yes' }],
    allow: false,
  },
  'a claim does not count as a parameter': {
    rows: [send('jid=x')],
    claims: { jid: 'x' },
    ask: ['mcp:send', 'team'],
    allow: false,
  },
  'the predicate and the parameters must both match': {
    rows: [allow('github:1', 'mcp:send', 'team', { params: 'jid=x', predicate: 'mfa=yes' })],
    claims: { mfa: 'yes' },
    ask: ['mcp:send', 'team', { jid: 'y' }],
    allow: false,
  },
}

const good = allow('github:1', 'interact', 'team')
/** Unchecked, as in a restored package or an old store. */
const odd = (row: AclRow, part: Record<string, string>): AclRow => ({ ...row, ...part })

const MALFORMED: Record<string, Case> = {
  'a malformed scope matches nothing': { rows: [allow('github:1', 'admin', '[')], ask: ['admin', '['], allow: false },
  'other rows still apply besides a malformed one': {
    rows: [allow('github:1', 'admin', '['), good],
    ask: ['interact', 'team'],
    allow: true,
  },
  'a malformed deny matches nothing either': {
    rows: [good, deny('github:1', 'interact', 'team[')],
    ask: ['interact', 'team'],
    allow: true,
  },
  'three stars match nothing': { rows: [allow('github:1', 'admin', '***')], ask: ['admin', 'team'], allow: false },
  'a scope with a trailing slash matches nothing': {
    rows: [allow('github:1', 'admin', 'team/')],
    ask: ['admin', 'team/'],
    allow: false,
  },
  'an empty scope is not the instance': { rows: [allow('github:1', 'admin', '')], ask: ['admin', ''], allow: false },
  'a malformed principal matches nothing': {
    rows: [allow('github:[', 'admin', 'team')],
    who: 'github:[',
    ask: ['admin', 'team'],
    allow: false,
  },
  'a principal without a namespace matches nothing': {
    rows: [allow('alice', 'admin', 'team')],
    who: 'alice',
    ask: ['admin', 'team'],
    allow: false,
  },
  'a name without a namespace is included in everyone': {
    rows: [allow('**', 'interact', 'team')],
    who: 'alice',
    ask: ['interact', 'team'],
    allow: true,
  },
  'an unknown action matches nothing': {
    rows: [allow('github:1', 'egress', 'team')],
    ask: ['egress', 'team'],
    allow: false,
  },
  'a glob of actions other than tools matches nothing': {
    rows: [allow('github:1', 'a*', 'team')],
    ask: ['admin', 'team'],
    allow: false,
  },
  'params that do not parse match nothing': {
    rows: [send('=x')],
    ask: ['mcp:send', 'team', { '': 'x' }],
    allow: false,
  },
  'an empty item in params matches nothing': {
    rows: [send('jid=x,')],
    ask: ['mcp:send', 'team', { jid: 'x' }],
    allow: false,
  },
  'params do not support negation': { rows: [send('!jid')], ask: ['mcp:send', 'team'], allow: false },
  'a predicate that does not parse matches nothing': {
    rows: [when('a b')],
    claims: { 'a b': 'x' },
    ask: ['admin', 'team'],
    allow: false,
  },
  'an effect in another spelling matches nothing': {
    rows: [odd(good, { effect: 'Allow' })],
    ask: ['interact', 'team'],
    allow: false,
  },
}

suite('checkAccess: scopes and actions of a single row', () => {
  const isAllowed = (row: AclRow, action: string, scope: string): boolean =>
    checkAccess(compilePolicy([row], []), { principal: 'github:1', claims: {} }, { action, scope }).allow
  for (const [sentence, [granted, requested, covered]] of Object.entries({ ...COVERAGE, ...GLOB_COVERAGE })) {
    test(sentence, () => assert.equal(isAllowed(allow('github:1', 'admin', granted), 'admin', requested), covered))
  }
  for (const [sentence, [granted, requested, contained]] of Object.entries(ACTION_COVERAGE)) {
    test(sentence, () => assert.equal(isAllowed(allow('github:1', granted, 'team'), requested, 'team'), contained))
  }
})

const TABLES = { EVALUATION, SCOPES, WHOLE_GLOBS, ACTIONS, PRINCIPALS, ROLES, CONDITIONS, MALFORMED }

for (const [name, table] of Object.entries(TABLES)) {
  suite(`checkAccess: ${name.toLowerCase().replace('_', ' ')}`, () => {
    for (const [sentence, { rows, roles = [], who = 'github:1', claims = {}, ask, ...expected }] of Object.entries(
      table,
    )) {
      test(sentence, () => {
        const [action, scope, params] = ask
        const question = params ? { action, scope, params } : { action, scope }
        const verdict = checkAccess(compilePolicy(rows, roles), { principal: who, claims }, question)
        assert.equal(verdict.allow, expected.allow, verdict.reason)
        if (expected.reason !== undefined) assert.equal(verdict.reason, expected.reason)
      })
    }
  })
}

test('a policy limits its cache of principals without losing rows', () => {
  const policy = compilePolicy([allow('anon:*', 'interact', 'team'), deny('anon:7', 'interact', 'team')], [])
  const ask = (principal: string): boolean =>
    checkAccess(policy, { principal, claims: {} }, { action: 'interact', scope: 'team' }).allow
  for (let at = 0; at < 10_000; at++) assert.equal(ask(`anon:${at}`), at !== 7)
  assert.equal(ask('anon:7'), false)
})

test('a very long scope full of slashes is evaluated quickly', () => {
  const policy = compilePolicy([allow('github:1', 'admin', '*/a/**/b'), allow('github:1', 'admin', 'a/**')], [])
  const start = process.cpuUsage()
  assert.equal(
    checkAccess(policy, { principal: 'github:1', claims: {} }, { action: 'admin', scope: 'a/'.repeat(32_768) }).allow,
    true,
  )
  // CPU time, so other processes on the machine do not count.
  assert.ok(process.cpuUsage(start).user < 1_000_000)
})

test('a refusal about the empty scope names the instance', () => {
  const { reason } = checkAccess(
    compilePolicy([], []),
    { principal: 'github:1', claims: {} },
    { action: 'admin', scope: '' },
  )
  assert.equal(reason, 'no row allows admin on the instance')
})
