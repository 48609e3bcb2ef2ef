// Operators, administered scopes, membership cycles, and rows that can never match.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import {
  type AclRow,
  administeredScopes,
  compilePolicy,
  findCycle,
  isOperator,
  type Membership,
  unmatchableReason,
} from './policy.ts'
import type { Claims } from './rules.ts'

/** The effect is unchecked, as in a restored package or an old store. */
const row = (principal: string, action: string, scope: string, on: Record<string, string> = {}): AclRow => ({
  ...{ principal, action, scope, effect: 'allow', params: '', predicate: '' },
  ...on,
})
const no = { effect: 'deny' }
const member = (subject: string, role: string): Membership => ({ subject, role })

const OPERATORS: Record<string, { rows?: AclRow[]; roles?: Membership[]; operator: boolean }> = {
  'no one is an operator without a row': { operator: false },
  'a member of the role is an operator': { roles: [member('github:1', 'role:operator')], operator: true },
  'a member of a member of the role is an operator': {
    roles: [member('github:1', 'role:a'), member('role:a', 'role:operator')],
    operator: true,
  },
  'a member of another role is not an operator': { roles: [member('github:1', 'role:member')], operator: false },
  'an administrator of everything is an operator': { rows: [row('github:1', 'admin', '**')], operator: true },
  'a principal that may do everything everywhere is an operator': {
    rows: [row('github:1', '*', '**')],
    operator: true,
  },
  'having every tool everywhere does not make an operator': { rows: [row('github:1', 'mcp:*', '**')], operator: false },
  'administering every top-level folder does not make an operator': {
    rows: [row('github:1', 'admin', '*')],
    operator: false,
  },
  'administering a subtree does not make an operator': { rows: [row('github:1', 'admin', 'team/**')], operator: false },
  'a conditional grant does not make an operator': {
    rows: [row('github:1', 'admin', '**', { predicate: 'mfa=yes' })],
    operator: false,
  },
  'a grant for some parameters does not make an operator': {
    rows: [row('github:1', 'admin', '**', { params: 'jid' })],
    operator: false,
  },
  'a deny of everything removes operator status': {
    rows: [row('github:1', '*', '**', no)],
    roles: [member('github:1', 'role:operator')],
    operator: false,
  },
  'a deny of admin everywhere removes operator status': {
    rows: [row('github:1', 'admin', '**'), row('github:1', 'admin', '**', no)],
    operator: false,
  },
  'a deny of a tool everywhere keeps operator status': {
    rows: [row('github:1', 'mcp:send', '**', no)],
    roles: [member('github:1', 'role:operator')],
    operator: true,
  },
  'a deny in a subtree keeps operator status': {
    rows: [row('**', 'admin', 'archive/**', no)],
    roles: [member('github:1', 'role:operator')],
    operator: true,
  },
}

suite('isOperator', () => {
  for (const [sentence, { rows = [], roles = [], operator }] of Object.entries(OPERATORS)) {
    test(sentence, () => assert.equal(isOperator(compilePolicy(rows, roles), 'github:1'), operator))
  }
})

const ADMINISTERED: Record<string, { rows: AclRow[]; roles?: Membership[]; claims?: Claims; scopes: string[] }> = {
  'without a row no scope is listed': { rows: [], scopes: [] },
  'admin rows are listed, sorted': {
    rows: [row('github:1', 'admin', 'b/**'), row('github:1', 'admin', 'a')],
    scopes: ['a', 'b/**'],
  },
  'a star row is listed': { rows: [row('github:1', '*', 'a')], scopes: ['a'] },
  'a scope granted twice is listed once': {
    rows: [row('github:1', '*', 'a'), row('github:1', 'admin', 'a')],
    scopes: ['a'],
  },
  'rows of roles are listed': {
    rows: [row('role:x', 'admin', 'a')],
    roles: [member('github:1', 'role:x')],
    scopes: ['a'],
  },
  'rows of everyone are listed': { rows: [row('github:*', 'admin', 'a')], scopes: ['a'] },
  'tools are not administration': {
    rows: [row('github:1', 'mcp:*', 'a'), row('github:1', 'interact', 'b')],
    scopes: [],
  },
  'a scope that is denied is not listed': {
    rows: [row('github:1', 'admin', 'a/**'), row('github:1', 'admin', 'a/**', no)],
    scopes: [],
  },
  'a scope that a wider deny covers is not listed': {
    rows: [row('github:1', 'admin', 'a/b'), row('**', '*', 'a/**', no)],
    scopes: [],
  },
  'a scope that is denied in part is listed': {
    rows: [row('github:1', 'admin', 'a/**'), row('github:1', 'admin', 'a/b', no)],
    scopes: ['a/**'],
  },
  'a deny of a tool does not count': {
    rows: [row('github:1', 'admin', 'a'), row('github:1', 'mcp:*', 'a', no)],
    scopes: ['a'],
  },
  'a row whose predicate matches is listed': {
    rows: [row('github:1', 'admin', 'a', { predicate: 'mfa=yes' })],
    claims: { mfa: 'yes' },
    scopes: ['a'],
  },
  'a row whose predicate does not match is not listed': {
    rows: [row('github:1', 'admin', 'a', { predicate: 'mfa=yes' })],
    scopes: [],
  },
  'a row for some parameters is not listed': { rows: [row('github:1', 'admin', 'a', { params: 'jid' })], scopes: [] },
}

suite('administeredScopes', () => {
  for (const [sentence, { rows, roles = [], claims = {}, scopes }] of Object.entries(ADMINISTERED)) {
    test(sentence, () =>
      assert.deepEqual(administeredScopes(compilePolicy(rows, roles), { principal: 'github:1', claims }), scopes),
    )
  }
})

const CYCLES: Record<string, { roles: [string, string][]; added: [string, string]; path?: string[] }> = {
  'the first membership creates no cycle': { roles: [], added: ['github:1', 'role:a'] },
  'a role of itself is a cycle': { roles: [], added: ['role:a', 'role:a'], path: ['role:a', 'role:a'] },
  'two roles of each other are a cycle': {
    roles: [['role:a', 'role:b']],
    added: ['role:b', 'role:a'],
    path: ['role:b', 'role:a', 'role:b'],
  },
  'a longer path back is a cycle': {
    roles: [
      ['role:a', 'role:b'],
      ['role:b', 'role:c'],
    ],
    added: ['role:c', 'role:a'],
    path: ['role:c', 'role:a', 'role:b', 'role:c'],
  },
  'the shortest cycle is reported': {
    roles: [
      ['role:a', 'role:x'],
      ['role:x', 'role:b'],
      ['role:a', 'role:b'],
    ],
    added: ['role:b', 'role:a'],
    path: ['role:b', 'role:a', 'role:b'],
  },
  'two paths to the same role are not a cycle': {
    roles: [
      ['role:a', 'role:c'],
      ['role:b', 'role:c'],
      ['role:a', 'role:b'],
    ],
    added: ['github:1', 'role:a'],
  },
  'adding a membership again creates no cycle': { roles: [['role:a', 'role:b']], added: ['role:a', 'role:b'] },
  'an existing cycle elsewhere is not reported': {
    roles: [
      ['role:a', 'role:b'],
      ['role:b', 'role:a'],
    ],
    added: ['github:1', 'role:a'],
  },
}

suite('findCycle', () => {
  for (const [sentence, { roles, added, path }] of Object.entries(CYCLES)) {
    test(sentence, () =>
      assert.deepEqual(
        findCycle(
          roles.map(([from, to]) => member(from, to)),
          member(...added),
        ),
        path,
      ),
    )
  }
})

const MATCHABLE: AclRow[] = [
  row('role:operator', '*', '**'),
  row('**', 'interact', '**'),
  row('google:*', 'assume', 'a/*'),
  row('folder:acme/**', 'mcp:*', '*/eng'),
  row('telegram:user/1', 'mcp:acl.list', 'a[bc]?', { effect: 'deny' }),
  row('github:1', 'mcp:issue_chat_link', 'team', { params: 'jid_suffix, context=a*', predicate: 'tier=1' }),
]

const UNMATCHABLE: Record<string, [row: AclRow, reason: RegExp]> = {
  'an empty principal': [row('', 'admin', 'a'), /^the principal "" is neither/],
  'a principal without a namespace': [row('alice', 'admin', 'a'), /^the principal "alice" is neither/],
  'a principal without a name': [row('github:', 'admin', 'a'), /^the principal "github:" is neither/],
  'a principal with an empty namespace': [row(':1', 'admin', 'a'), /^the principal/],
  'a star alone as principal': [row('*', 'admin', 'a'), /^the principal "\*" is neither/],
  'two stars as namespace': [row('**:1', 'admin', 'a'), /^the principal/],
  'a namespace of two segments': [row('a/b:1', 'admin', 'a'), /^the principal/],
  'a malformed glob as principal': [row('github:[', 'admin', 'a'), /^the principal/],
  'a malformed glob as namespace': [row('[:1', 'admin', 'a'), /^the principal/],
  'an unknown action': [row('github:1', 'egress', 'a'), /^the action "egress" is none of \*, admin, interact/],
  'an action in capitals': [row('github:1', 'Admin', 'a'), /^the action/],
  'an empty action': [row('github:1', '', 'a'), /^the action/],
  'a tool without a name': [row('github:1', 'mcp:', 'a'), /^the action/],
  'a glob of actions other than tools': [row('github:1', 'adm*', 'a'), /^the action/],
  'a tool with a dash': [row('github:1', 'mcp:send-file', 'a'), /^the action/],
  'a malformed scope': [row('github:1', 'admin', 'a/['), /^the scope "a\/\[" is not a path glob$/],
  'a scope of three stars': [row('github:1', 'admin', '***'), /^the scope/],
  'an empty scope': [row('github:1', 'admin', ''), /^the scope "" has an empty segment/],
  'a scope that ends in a slash': [row('github:1', 'admin', 'a/'), /^the scope "a\/" has an empty segment/],
  'another effect': [
    row('github:1', 'admin', 'a', { effect: 'maybe' }),
    /^the effect "maybe" is neither allow nor deny$/,
  ],
  'params without a name': [
    row('github:1', 'admin', 'a', { params: '=x' }),
    /^the params "=x" are not a comma-separated list/,
  ],
  'params with negation': [row('github:1', 'admin', 'a', { params: '!jid' }), /^the params/],
  'params with a comma at the end': [row('github:1', 'admin', 'a', { params: 'jid,' }), /^the params/],
  'a predicate that does not parse': [
    row('github:1', 'admin', 'a', { predicate: 'a b=c' }),
    /^the predicate "a b=c" is no/,
  ],
}

suite('unmatchableReason', () => {
  for (const row of MATCHABLE) {
    test(`${row.principal} ${row.action} on ${row.scope} can match`, () =>
      assert.equal(unmatchableReason(row), undefined))
  }
  for (const [sentence, [row, reason]] of Object.entries(UNMATCHABLE)) {
    test(`${sentence} can never match`, () => assert.match(unmatchableReason(row) ?? '', reason))
  }
})
