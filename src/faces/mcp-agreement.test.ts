// REST and tools give the same result for the same request and rights, because both use the same evaluator. Two equal
// instances get the same requests, one over REST and one as tool calls, and must stay equal.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { agent, person, type TestHost, testHost } from '../../test/support/host.ts'
import { openTools, TOOL_VERBS, type ToolSession } from '../../test/support/tools.ts'
import { acl, aclMembership } from '../core/access/acl.ts'
import type { Caller } from '../core/access/caller.ts'
import { Refusal } from '../lib/refusal.ts'
import { audit } from '../registry/audit.ts'

type Args = Record<string, unknown>

interface TestRequest {
  tool: string
  args: Args
  /** The input over REST where it differs from the arguments. */
  input?: Args
}

const FOLDERS = ['main', 'team', 'team/a', 'team/a/b', 'other']
const SCOPES = [...FOLDERS, 'team/**', 'team/*', 'other/**', '**', '*']
const ACTIONS = ['*', 'admin', 'interact', 'mcp:*', ...[...TOOL_VERBS.keys()].map((tool) => `mcp:${tool}`)]
const WHO = 'github:1'

const folder = fc.constantFrom(...FOLDERS)
const grant = fc.record({
  action: fc.oneof(fc.constantFrom('*', 'admin', 'mcp:*'), fc.constantFrom(...ACTIONS)),
  scope: fc.constantFrom(...SCOPES),
  effect: fc.constantFrom('allow' as const, 'allow' as const, 'deny' as const),
})
const request: fc.Arbitrary<TestRequest> = fc.oneof(
  fc
    .record({ target_folder: folder, jid_suffix: fc.constantFrom('a', 'b') })
    .map((args) => ({ tool: 'issue_chat_link', args })),
  fc.record({ source_label: fc.constantFrom('a', 'b') }).map((args) => ({ tool: 'issue_webhook', args })),
  folder.map((at) => ({ tool: 'revoke_route_token', args: { jid: `web:${at}` } })),
  fc.record({ seq: fc.nat(9), match: fc.constant(''), target: folder }).map((input) => ({
    tool: 'add_route',
    args: { route: JSON.stringify(input) },
    input,
  })),
  fc.integer({ min: 1, max: 5 }).map((id) => ({ tool: 'delete_route', args: { id } })),
  fc
    .array(
      folder.map((target) => ({ seq: 7, match: '', target })),
      { maxLength: 2 },
    )
    .map((routes) => ({
      tool: 'set_routes',
      args: { routes: JSON.stringify(routes) },
      input: { routes },
    })),
  fc.constantFrom(...SCOPES).map((target_glob) => ({ tool: 'invite_create', args: { target_glob } })),
  folder.map((at) => ({ tool: 'set_web_route', args: { path: `/pub/${at}/`, access: 'public' } })),
  folder.map((at) => ({ tool: 'del_web_route', args: { path: `/pub/${at}/` }, input: { path_prefix: `/pub/${at}/` } })),
  folder.map((targetJid) => ({ tool: 'schedule_task', args: { targetJid, prompt: 'Look.', cron: '60000' } })),
  fc
    .tuple(fc.constantFrom('pause_task', 'resume_task'), folder)
    .map(([tool, at]) => ({ tool, args: { taskId: `${at}-mem-0` }, input: { id: `${at}-mem-0` } })),
  folder.map((at) => ({ tool: 'cancel_task', args: { taskId: `${at}-mem-1` }, input: { id: `${at}-mem-1` } })),
  folder.map((at) => ({ tool: 'network_rules.allow', args: { folder: at, target: 'a.example' } })),
  folder.map((at) => ({ tool: 'list_acl', args: { folder: at }, input: { scope: at } })),
  fc
    .constantFrom('list_route_tokens', 'list_routes', 'list_web_routes', 'list_tasks', 'refresh_groups', 'audit.list')
    .map((tool) => ({ tool, args: {} })),
  fc.constant({ tool: 'onboarding_gates.create', args: { spec: 'team/*', daily_limit: 1 } }),
)

async function seeded(t: TestContext): Promise<TestHost> {
  const at = await testHost(t)
  await at.groups(...FOLDERS)
  const root = await openTools(t, at.host, agent('main'))
  for (const target of FOLDERS) {
    await root.call('issue_chat_link', { target_folder: target })
    await root.call('add_route', { route: JSON.stringify({ target }) })
    const owner = await openTools(t, at.host, agent(target))
    await owner.call('set_web_route', { path: `/pub/${target}/`, access: 'public' })
  }
  return at
}

async function setRights(
  { host }: TestHost,
  rows: { action: string; scope: string; effect: 'allow' | 'deny' }[],
  isOperator: boolean,
) {
  await host.engine.transaction(async (tx) => {
    await acl.remove(tx, { principal: WHO })
    await aclMembership.remove(tx, { subject: WHO })
    const granted = { principal: WHO, params: '', predicate: '', granted_at: '2026-01-01T00:00:00.000Z' }
    for (const row of rows) await acl.insertIfMissing(tx, { ...granted, ...row })
    if (isOperator)
      await aclMembership.insert(tx, { subject: WHO, role: 'role:operator', added_at: granted.granted_at })
  })
}

/** The result over REST: the message of a refusal, `empty` for a list without rows, or `done`. */
async function callOverRest(at: TestHost, caller: Caller, { tool, args, input = args }: TestRequest): Promise<string> {
  const verb = TOOL_VERBS.get(tool)
  assert.ok(verb)
  try {
    const reply = await at.as(caller, 'rest').call(verb, input)
    const rows = Object.values(Object(reply)).find(Array.isArray)
    return verb.isReadOnly && rows?.length === 0 ? 'empty' : 'done'
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return error.hint ? `${error.message}\nhint: ${error.hint}` : error.message
  }
}

async function callAsTool(session: ToolSession, { tool, args }: TestRequest): Promise<string> {
  const result = await session.client.callTool({ name: tool, arguments: args }).catch((error: unknown) => {
    assert.ok(error instanceof Error && error.message === `unknown tool: ${tool}`, String(error))
  })
  if (!result) return 'not listed'
  const [content] = result.content
  assert.ok(content?.type === 'text')
  if (result.isError) return content.text
  return /^(\[\]|\{("folder":"[^"]*",)?"\w+":\[\]\})$/.test(content.text) ? 'empty' : 'done'
}

test('REST and tools give the same results and make the same changes', async (t) => {
  const [rest, tools] = [await seeded(t), await seeded(t)]
  const bearers = [undefined, 'team', 'other']
  const sessions = new Map<string | undefined, ToolSession>()
  for (const bearer of bearers) sessions.set(bearer, await openTools(t, tools.host, person(WHO, bearer)))
  const tally = new Map<string, number>()

  await fc.assert(
    fc.asyncProperty(
      fc.array(grant, { maxLength: 4 }),
      fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
      fc.constantFrom(...bearers),
      fc.array(request, { minLength: 1, maxLength: 4 }),
      async (rows, isOperator, bearer, requests) => {
        for (const at of [rest, tools]) await setRights(at, rows, isOperator)
        const session = sessions.get(bearer)
        assert.ok(session)
        for (const each of requests) {
          const overRest = await callOverRest(rest, person(WHO, bearer), each)
          const asTool = await callAsTool(session, each)
          const outcome = asTool === 'done' ? 'done' : 'refused'
          tally.set(outcome, (tally.get(outcome) ?? 0) + 1)
          // A caller for whom the tool is not listed must not succeed over REST either.
          if (asTool === 'not listed') assert.notEqual(overRest, 'done', JSON.stringify(each))
          else assert.equal(overRest, asTool, JSON.stringify(each))
        }
      },
    ),
    { numRuns: 150 },
  )

  // A run that never allows, or never refuses, would prove nothing.
  assert.ok((tally.get('done') ?? 0) > 20 && (tally.get('refused') ?? 0) > 20, JSON.stringify([...tally]))
  const auditedCalls = async ({ host }: TestHost) =>
    (await host.engine.read((tx) => audit.list(tx, { category: 'mutation' }))).map(
      ({ action, key }) => `${action} ${key}`,
    )
  assert.deepEqual(await auditedCalls(rest), await auditedCalls(tools))
})
