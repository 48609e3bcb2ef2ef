// What holds for every policy and every question, tried on many small made-up ones.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { compileSegments } from '../lib/glob.ts'
import {
  type AclRow,
  administered,
  compilePolicy,
  deadRow,
  findCycle,
  isOperator,
  judge,
  judgeTool,
  type Membership,
  type Policy,
  toolListing,
} from './access.ts'

// Few names, so that rows, roles and questions meet often.
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
const asker = fc.record({ principal: fc.oneof(name, fc.constantFrom('github:2', 'anon:1', 'nobody')), claims })
const question = fc.record({
  action: fc.oneof(action, fc.constant('fly')),
  scope: fc.oneof(scope, fc.constant('')),
  params,
})
const call = fc.record({ tool, scope: fc.oneof(scope, fc.constant('')), params })

const broken: fc.Arbitrary<AclRow> = fc
  .record({
    principal: fc.oneof(principal, fc.constantFrom('', '*', 'alice', 'github:', 'github:[', '**:1')),
    action: fc.oneof(action, fc.constantFrom('', 'egress', 'mcp:', 'mcp:s?')),
    scope: fc.oneof(scope, fc.constantFrom('', '[', 'a/', '***', 'a**', '\\')),
    effect,
    params: fc.oneof(conditions, fc.constantFrom('=', ',', '!jid', 'a b')),
    predicate: fc.oneof(conditions, fc.constantFrom('=x', 'a,,b', '!tier')),
  })
  .filter((made) => deadRow(made) !== undefined)

const LAW = { numRuns: 1500 }

suite('the laws of access', () => {
  test('adding a deny row never turns a refusal into an allow', () => {
    fc.assert(
      fc.property(rows, roles, row, asker, question, (before, members, added, who, asked) => {
        const after = [...before, { ...added, effect: 'deny' as const }]
        if (judge(compilePolicy(before, members), who, asked).allow) return
        assert.equal(judge(compilePolicy(after, members), who, asked).allow, false)
      }),
      LAW,
    )
  })

  test('adding a deny row never gives an agent a tool', () => {
    fc.assert(
      fc.property(rows, roles, row, folder, call, (before, members, added, who, asked) => {
        const [old, renewed] = [before, [...before, { ...added, effect: 'deny' as const }]].map((all) =>
          compilePolicy(all, members),
        )
        assert.ok(old && renewed)
        if (!judgeTool(old, who, asked).allow) assert.equal(judgeTool(renewed, who, asked).allow, false)
        if (!toolListing(old, who, asked.tool).listed) assert.equal(toolListing(renewed, who, asked.tool).listed, false)
      }),
      LAW,
    )
  })

  test('adding an allow row never takes anything away', () => {
    fc.assert(
      fc.property(rows, roles, row, asker, question, (before, members, added, who, asked) => {
        const after = [...before, { ...added, effect: 'allow' as const }]
        if (!judge(compilePolicy(before, members), who, asked).allow) return
        assert.equal(judge(compilePolicy(after, members), who, asked).allow, true)
      }),
      LAW,
    )
  })

  test('a dead row changes no answer', () => {
    fc.assert(
      fc.property(
        rows,
        roles,
        broken,
        asker,
        question,
        folder,
        call,
        (before, members, dead, who, asked, agent, called) => {
          const all = (given: AclRow[]): unknown[] =>
            everything(compilePolicy(given, members), who, asked, agent, called)
          assert.deepEqual(all([dead, ...before]), all(before))
        },
      ),
      LAW,
    )
  })

  test('the order of rows and of memberships changes no answer, not even a reason', () => {
    fc.assert(
      fc.property(rows, roles, asker, question, folder, call, (given, members, who, asked, agent, called) => {
        const there = everything(compilePolicy(given, members), who, asked, agent, called)
        const back = everything(compilePolicy(given.toReversed(), members.toReversed()), who, asked, agent, called)
        assert.deepEqual(back, there)
      }),
      LAW,
    )
  })

  test('what is remembered from one question does not change the next', () => {
    fc.assert(
      fc.property(rows, roles, fc.array(fc.tuple(asker, question), { maxLength: 6 }), (given, members, asked) => {
        const policy = compilePolicy(given, members)
        for (const [who, what] of asked) {
          assert.deepEqual(judge(policy, who, what), judge(compilePolicy(given, members), who, what))
        }
      }),
    )
  })

  test('a question about one folder is answered as by reading all rows', () => {
    const plain = question.map((asked) => ({ ...asked, scope: asked.scope.replace(/[*?[\]]/g, 'a') }))
    fc.assert(
      fc.property(rows, roles, asker, plain, (given, members, who, asked) => {
        assert.equal(judge(compilePolicy(given, members), who, asked).allow, naiveJudge(given, members, who, asked))
      }),
      { numRuns: 5000 },
    )
  })

  test('who may do something on all of a glob may do it on each folder of it', () => {
    fc.assert(
      fc.property(rows, roles, asker, question, folder, (given, members, who, asked, one) => {
        const policy = compilePolicy(given, members)
        if (!judge(policy, who, asked).allow || !compileSegments(asked.scope)?.(one)) return
        assert.equal(judge(policy, who, { ...asked, scope: one }).allow, true)
      }),
      LAW,
    )
  })

  test('what an agent may call is listed, and its bracket admits it', () => {
    fc.assert(
      fc.property(rows, roles, folder, call, (given, members, who, asked) => {
        const policy = compilePolicy(given, members)
        if (judgeTool(policy, who, asked).allow) assert.equal(toolListing(policy, who, asked.tool).listed, true)
      }),
      LAW,
    )
  })

  test('memberships in a circle end, and a circle is found before it is made', () => {
    const circle = fc.integer({ min: 1, max: 200 })
    fc.assert(
      fc.property(circle, roles, (size, others) => {
        const round = Array.from({ length: size }, (_, at) => ({
          subject: `role:${at}`,
          role: `role:${(at + 1) % size}`,
        }))
        const policy = compilePolicy([], [...others, ...round])
        assert.equal(policy.holdings('role:0').principals.size, size)
        const [first, ...rest] = round
        assert.ok(first)
        assert.equal(findCycle([...rest, ...others], first)?.length, size + 1)
      }),
    )
  })

  test('memberships that were each let in never make a circle', () => {
    fc.assert(
      fc.property(fc.array(membership, { maxLength: 12 }), (wanted) => {
        const held: Membership[] = []
        for (const added of wanted) if (!findCycle(held, added)) held.push(added)
        for (const { subject, role } of held) {
          assert.equal(compilePolicy([], held).holdings(role).principals.has(subject), false)
        }
      }),
      LAW,
    )
  })
})

type Who = Parameters<typeof judge>[1]
type Asked = Parameters<typeof judge>[2]
type Called = Parameters<typeof judgeTool>[2]

function everything(policy: Policy, who: Who, asked: Asked, agent: string, called: Called): unknown[] {
  return [
    judge(policy, who, asked),
    judgeTool(policy, agent, called),
    toolListing(policy, agent, called.tool),
    isOperator(policy, who.principal),
    administered(policy, who),
  ]
}

/** The specification read aloud, with no index, no cache and no order. */
function naiveJudge(given: AclRow[], members: Membership[], who: Who, asked: Asked): boolean {
  const names = new Set([who.principal])
  for (const _ of members) for (const { subject, role } of members) if (names.has(subject)) names.add(role)
  const kept = given.filter(
    (one) =>
      [...names].some((given) => naivePrincipal(one.principal, given)) &&
      naiveContains(one.action, asked.action) &&
      (one.scope === '**' || (asked.scope !== '' && compileSegments(one.scope)?.(asked.scope))) &&
      naiveHolds(one.params, asked.params ?? {}) &&
      naiveHolds(one.predicate, who.claims),
  )
  return kept.length > 0 && kept.every((one) => one.effect === 'allow')
}

function naivePrincipal(pattern: string, given: string): boolean {
  if (pattern === '**') return true
  const [[space = '', rest = ''], [givenSpace = '', givenRest]] = [pattern.split(/:(.*)/s), given.split(/:(.*)/s)]
  if (givenRest === undefined) return false
  return Boolean(compileSegments(space)?.(givenSpace) && compileSegments(rest)?.(givenRest))
}

function naiveContains(held: string, asked: string): boolean {
  if (held === '*' || held === asked) return true
  const isTool = asked.startsWith('mcp:')
  if (held === 'admin') return isTool || asked === 'interact'
  const pattern = held.split('*').map((part) => part.replaceAll('.', '\\.'))
  return isTool && held.startsWith('mcp:') && new RegExp(`^${pattern.join('.*')}$`).test(asked)
}

function naiveHolds(list: string, values: Record<string, string>): boolean {
  return list
    .split(',')
    .filter((item) => item !== '')
    .every((item) => {
      const [key = '', glob = '*'] = item.split('=')
      const value = values[key]
      return value !== undefined && (glob.endsWith('*') ? value.startsWith(glob.slice(0, -1)) : value === glob)
    })
}
