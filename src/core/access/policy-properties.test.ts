// Properties of every policy and request, tested on small random ones.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { declaredTiers } from '../../../test/support/tool-tiers.ts'
import { compileSegments } from '../../lib/text/glob.ts'
import {
  type AccessRequest,
  type AccessSubject,
  type AclRow,
  administeredScopes,
  checkAccess,
  checkToolAccess,
  compilePolicy,
  type DeclaredTiers,
  findCycle,
  isOperator,
  type Membership,
  type Policy,
  type ToolAccessRequest,
  toolListing,
  unmatchableReason,
} from './policy.ts'

// Few names, so rows, roles and requests match often.
const folder = fc.constantFrom('main', 'a', 'b', 'a/b', 'a/b/c', 'a/b/c/d', 'ab')
const principal = fc.oneof(
  fc.constantFrom('**', 'github:1', 'github:*', 'g?*:1', 'role:x', 'role:y', 'role:*', 'role:operator', 'folder:**'),
  folder.map((name) => `folder:${name}`),
  folder.map((name) => `folder:${name}/**`),
)
const tool = fc.constantFrom('send', 'reply', 'post', 'set_web_host', 'list_routes', 'acl.list', 'issue_webhook')
const action = fc.oneof(
  fc.constantFrom('*', 'admin', 'interact', 'assume', 'mcp:*'),
  tool.map((name) => `mcp:${name}`),
  fc.constantFrom('mcp:set_*', 'mcp:*e*', 'mcp:acl.*'),
)
const scope = fc.oneof(folder, fc.constantFrom('**', '*', 'a/**', 'a/*', '*/b', '**/b', 'a/b/**', '[ab]', 'a?'))
const conditions = fc.constantFrom('', '', '', 'jid', 'jid=web:*', 'tier=1', 'world=a,tier')
const effect = fc.constantFrom('allow' as const, 'deny' as const)
const row: fc.Arbitrary<AclRow> = fc.record({
  principal,
  action,
  scope,
  effect,
  params: conditions,
  predicate: conditions,
})
const name = fc.constantFrom('github:1', 'role:x', 'role:y', 'role:operator', 'folder:a', 'folder:a/b/c')
const membership: fc.Arbitrary<Membership> = fc.record({ subject: name, role: name })
const rows = fc.array(row, { maxLength: 8 })
const roles = fc.array(membership, { maxLength: 5 })
const params = fc.constantFrom({}, { jid: 'web:a' }, { jid: 'tg:1', tier: '1' })
const claims = fc.constantFrom({}, { tier: '1' }, { tier: '1', world: 'a', jid: 'web:' })
const subject = fc.record({ principal: fc.oneof(name, fc.constantFrom('github:2', 'anon:1', 'nobody')), claims })
const request = fc.record({
  action: fc.oneof(action, fc.constant('fly')),
  scope: fc.oneof(scope, fc.constant('')),
  params,
})
const call = fc
  .record({ tool, scope: fc.oneof(scope, fc.constant('')), params })
  .map((made) => ({ ...made, ...declaredTiers(made.tool) }))

const broken: fc.Arbitrary<AclRow> = fc
  .record({
    principal: fc.oneof(principal, fc.constantFrom('', '*', 'alice', 'github:', 'github:[', '**:1')),
    action: fc.oneof(action, fc.constantFrom('', 'egress', 'mcp:', 'mcp:s?')),
    scope: fc.oneof(scope, fc.constantFrom('', '[', 'a/', '***', 'a**', '\\')),
    effect,
    params: fc.oneof(conditions, fc.constantFrom('=', ',', '!jid', 'a b')),
    predicate: fc.oneof(conditions, fc.constantFrom('=x', 'a,,b', '!tier')),
  })
  .filter((made) => unmatchableReason(made) !== undefined)

const PROPERTY = { numRuns: 1500 }

suite('every policy', () => {
  test('adding a deny row never turns a refusal into an allow', () => {
    fc.assert(
      fc.property(rows, roles, row, subject, request, (before, members, added, who, requested) => {
        const after = [...before, { ...added, effect: 'deny' as const }]
        if (checkAccess(compilePolicy(before, members), who, requested).allow) return
        assert.equal(checkAccess(compilePolicy(after, members), who, requested).allow, false)
      }),
      PROPERTY,
    )
  })

  test('adding a deny row never gives an agent a tool', () => {
    fc.assert(
      fc.property(rows, roles, row, folder, call, (before, members, added, who, requested) => {
        const [old, renewed] = [before, [...before, { ...added, effect: 'deny' as const }]].map((all) =>
          compilePolicy(all, members),
        )
        assert.ok(old && renewed)
        if (!checkToolAccess(old, who, requested).allow)
          assert.equal(checkToolAccess(renewed, who, requested).allow, false)
        if (!toolListing(old, who, requested).listed) assert.equal(toolListing(renewed, who, requested).listed, false)
      }),
      PROPERTY,
    )
  })

  test('adding an allow row never takes anything away', () => {
    fc.assert(
      fc.property(rows, roles, row, subject, request, (before, members, added, who, requested) => {
        const after = [...before, { ...added, effect: 'allow' as const }]
        if (!checkAccess(compilePolicy(before, members), who, requested).allow) return
        assert.equal(checkAccess(compilePolicy(after, members), who, requested).allow, true)
      }),
      PROPERTY,
    )
  })

  test('a row that can never match changes no decision', () => {
    fc.assert(
      fc.property(
        rows,
        roles,
        broken,
        subject,
        request,
        folder,
        call,
        (before, members, dead, who, requested, agent, called) => {
          const all = (given: AclRow[]): unknown[] =>
            allDecisions(compilePolicy(given, members), who, requested, agent, called)
          assert.deepEqual(all([dead, ...before]), all(before))
        },
      ),
      PROPERTY,
    )
  })

  test('the order of rows and memberships changes no decision and no reason', () => {
    fc.assert(
      fc.property(rows, roles, subject, request, folder, call, (given, members, who, requested, agent, called) => {
        const forward = allDecisions(compilePolicy(given, members), who, requested, agent, called)
        const reversed = allDecisions(
          compilePolicy(given.toReversed(), members.toReversed()),
          who,
          requested,
          agent,
          called,
        )
        assert.deepEqual(reversed, forward)
      }),
      PROPERTY,
    )
  })

  test('cached grants do not change later decisions', () => {
    fc.assert(
      fc.property(rows, roles, fc.array(fc.tuple(subject, request), { maxLength: 6 }), (given, members, requested) => {
        const policy = compilePolicy(given, members)
        for (const [who, what] of requested) {
          assert.deepEqual(checkAccess(policy, who, what), checkAccess(compilePolicy(given, members), who, what))
        }
      }),
    )
  })

  test('the index gives the same decision as reading all rows', () => {
    const plain = request.map((requested) => ({ ...requested, scope: requested.scope.replace(/[*?[\]]/g, 'a') }))
    fc.assert(
      fc.property(rows, roles, subject, plain, (given, members, who, requested) => {
        assert.equal(
          checkAccess(compilePolicy(given, members), who, requested).allow,
          naiveDecision(given, members, who, requested),
        )
      }),
      { numRuns: 2000 },
    )
  })

  test('a right on a glob implies the right on each folder it matches', () => {
    fc.assert(
      fc.property(rows, roles, subject, request, folder, (given, members, who, requested, one) => {
        const policy = compilePolicy(given, members)
        if (!checkAccess(policy, who, requested).allow || !compileSegments(requested.scope)?.(one)) return
        assert.equal(checkAccess(policy, who, { ...requested, scope: one }).allow, true)
      }),
      PROPERTY,
    )
  })

  test('every tool that an agent may call is listed and within its bracket', () => {
    fc.assert(
      fc.property(rows, roles, folder, call, (given, members, who, requested) => {
        const policy = compilePolicy(given, members)
        if (checkToolAccess(policy, who, requested).allow)
          assert.equal(toolListing(policy, who, requested).listed, true)
      }),
      PROPERTY,
    )
  })

  test('expanding cyclic memberships terminates, and a cycle is found before it is added', () => {
    const circle = fc.integer({ min: 1, max: 200 })
    fc.assert(
      fc.property(circle, roles, (size, others) => {
        const round = Array.from({ length: size }, (_, at) => ({
          subject: `role:${at}`,
          role: `role:${(at + 1) % size}`,
        }))
        const policy = compilePolicy([], [...others, ...round])
        assert.equal(policy.grantsOf('role:0').principals.size, size)
        const [first, ...rest] = round
        assert.ok(first)
        assert.equal(findCycle([...rest, ...others], first)?.length, size + 1)
      }),
    )
  })

  test('memberships that were each accepted never form a cycle', () => {
    fc.assert(
      fc.property(fc.array(membership, { maxLength: 12 }), (wanted) => {
        const accepted: Membership[] = []
        for (const added of wanted) if (!findCycle(accepted, added)) accepted.push(added)
        for (const { subject, role } of accepted) {
          assert.equal(compilePolicy([], accepted).grantsOf(role).principals.has(subject), false)
        }
      }),
      PROPERTY,
    )
  })
})

function allDecisions(
  policy: Policy,
  subject: AccessSubject,
  request: AccessRequest,
  agent: string,
  call: ToolAccessRequest & DeclaredTiers,
): unknown[] {
  return [
    checkAccess(policy, subject, request),
    checkToolAccess(policy, agent, call),
    toolListing(policy, agent, call),
    isOperator(policy, subject.principal),
    administeredScopes(policy, subject),
  ]
}

/** A direct implementation of the specification, without index, cache or order. */
function naiveDecision(given: AclRow[], members: Membership[], who: AccessSubject, requested: AccessRequest): boolean {
  const names = new Set([who.principal])
  for (const _ of members) for (const { subject, role } of members) if (names.has(subject)) names.add(role)
  const matching = given.filter(
    (one) =>
      [...names].some((given) => naivePrincipal(one.principal, given)) &&
      naiveContains(one.action, requested.action) &&
      (one.scope === '**' || (requested.scope !== '' && compileSegments(one.scope)?.(requested.scope))) &&
      naiveConditionsHold(one.params, requested.params ?? {}) &&
      naiveConditionsHold(one.predicate, who.claims),
  )
  return matching.length > 0 && matching.every((one) => one.effect === 'allow')
}

function naivePrincipal(pattern: string, given: string): boolean {
  if (pattern === '**') return true
  const [[space = '', rest = ''], [givenSpace = '', givenRest]] = [pattern.split(/:(.*)/s), given.split(/:(.*)/s)]
  if (givenRest === undefined) return false
  return Boolean(compileSegments(space)?.(givenSpace) && compileSegments(rest)?.(givenRest))
}

function naiveContains(granted: string, requested: string): boolean {
  if (granted === '*' || granted === requested) return true
  const isTool = requested.startsWith('mcp:')
  if (granted === 'admin') return isTool || requested === 'interact'
  const pattern = granted.split('*').map((part) => part.replaceAll('.', '\\.'))
  return isTool && granted.startsWith('mcp:') && new RegExp(`^${pattern.join('.*')}$`).test(requested)
}

function naiveConditionsHold(list: string, values: Record<string, string>): boolean {
  return list
    .split(',')
    .filter((item) => item !== '')
    .every((item) => {
      const [key = '', glob = '*'] = item.split('=')
      const value = values[key]
      return value !== undefined && (glob.endsWith('*') ? value.startsWith(glob.slice(0, -1)) : value === glob)
    })
}
