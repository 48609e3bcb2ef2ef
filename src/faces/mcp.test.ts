// MCP over an example resource: results, errors, and what callers must not learn.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { Client, InMemoryTransport } from '@modelcontextprotocol/client'
import { z } from 'zod'
import { agent, person, type TestHost, testHost } from '../../test/support/host.ts'
import { GENERATIONS, openTools, type ToolSession } from '../../test/support/tools.ts'
import type { Caller } from '../core/access/caller.ts'
import { compilePolicy } from '../core/access/policy.ts'
import { groups } from '../core/groups/groups.ts'
import { refuse } from '../lib/refusal.ts'
import { audit } from '../registry/audit.ts'
import { allowAnyone, INSTANCE_SCOPE, requireTool } from '../registry/authorization.ts'
import type { InstanceHost } from '../registry/context.ts'
import { defineResource, defineVerb, toolArguments } from '../registry/resource.ts'
import { createToolServer } from './mcp.ts'
import { createToolList, resourceTools, toolsVisibleTo } from './tool-list.ts'

const SECRET = 'the password is hunter2'

const things = defineResource({
  of: groups,
  title: 'Things',
  servedBy: 'routd',
  verbs: () => ({
    nothing: defineVerb({ when: 'Do it.', input: z.object({}), authorize: allowAnyone, run: async () => {} }),
    text: defineVerb({
      when: 'Say it.',
      isReadOnly: true,
      input: z.object({ words: z.string().describe('What to say') }),
      output: z.object({ said: z.string() }),
      authorize: allowAnyone,
      toolReply: ({ said }) => said,
      run: async (_, { words }) => ({ said: words }),
    }),
    object: defineVerb({
      when: 'Get it.',
      tool: 'get_thing',
      isReadOnly: true,
      input: z.object({}),
      output: z.object({ name: z.string(), hash: z.string().meta({ writeOnly: true }) }),
      authorize: allowAnyone,
      run: async () => ({ name: 'a', hash: SECRET }),
    }),
    array: defineVerb({
      when: 'Get them.',
      isReadOnly: true,
      input: z.object({ limit: z.int().default(1) }),
      toolInput: toolArguments({ count: z.int() }, ({ count }) => ({ limit: count })),
      output: z.array(z.int()),
      authorize: allowAnyone,
      run: async (_, { limit }) => Array.from({ length: limit }, (_, index) => index),
    }),
    hinted: defineVerb({
      when: 'Try it.',
      input: z.object({}),
      authorize: allowAnyone,
      run: async () => refuse('conflict', 'it is taken', 'take another'),
    }),
    forbidden: defineVerb({
      when: 'Try it.',
      input: z.object({}),
      authorize: requireTool(() => INSTANCE_SCOPE),
      run: async () => {},
    }),
    broken: defineVerb({
      when: 'Break it.',
      input: z.object({}),
      authorize: allowAnyone,
      run: async () => {
        throw new Error(SECRET)
      },
    }),
    hidden: defineVerb({ input: z.object({}), authorize: allowAnyone, run: async () => {} }),
  }),
})
const LIST = createToolList(resourceTools([things]))

interface TestServer {
  at: TestHost
  reported: string[]
  open(caller: Caller): Promise<ToolSession>
}

async function openTest(t: TestContext): Promise<TestServer> {
  const at = await testHost(t)
  const reported: string[] = []
  const onError = (error: unknown, what: string) => reported.push(`${what}: ${String(error)}`)
  return { at, reported, open: (caller) => openTools(t, at.host, caller, { list: LIST, onError }) }
}

/** Code and message of a protocol error. */
async function protocolError(work: Promise<unknown>): Promise<string> {
  const error: unknown = await work.then(
    () => assert.fail('no error'),
    (error: unknown) => error,
  )
  assert.ok(error instanceof Error && 'code' in error)
  return `${error.code} ${error.message}`
}

for (const generation of GENERATIONS) {
  suite(`results, ${generation}`, () => {
    test('returns every kind of result', async (t) => {
      const { host } = await testHost(t)
      const session = await openTools(t, host, agent('main'), { list: LIST, generation })
      assert.equal(session.client.getServerVersion()?.name, 'svc')
      assert.equal(await session.call('groups.nothing'), 'ok')
      assert.equal(await session.call('groups.text', { words: 'hello' }), 'hello')
      const { content, structuredContent } = await session.client.callTool({
        name: 'groups.text',
        arguments: { words: '{"a": 1}' },
      })
      assert.deepEqual([content, structuredContent], [[{ type: 'text', text: '{"a": 1}' }], undefined])
      assert.deepEqual(await session.call('get_thing'), { name: 'a' })
      assert.deepEqual(await session.call('groups.array', { count: 3 }), [0, 1, 2])
      assert.equal(await session.refusal('groups.hinted'), 'it is taken\nhint: take another')
    })

    test('lists tools by name, with their arguments and grants', async (t) => {
      const { host } = await testHost(t)
      const session = await openTools(t, host, agent('main'), { list: LIST, generation })
      const tools = await session.tools()
      assert.deepEqual(
        tools.map(({ name }) => name),
        [
          'get_thing',
          'groups.array',
          'groups.broken',
          'groups.forbidden',
          'groups.hinted',
          'groups.nothing',
          'groups.text',
        ],
      )
      assert.deepEqual(await session.tools(), tools)
      const text = tools.find(({ name }) => name === 'groups.text')
      assert.equal(text?.description, 'Say it.\ngrants: ["*"]')
      assert.deepEqual(text?.inputSchema, {
        type: 'object',
        properties: { words: { type: 'string', description: 'What to say' } },
        required: ['words'],
        additionalProperties: false,
      })
      const array = tools.find(({ name }) => name === 'groups.array')
      assert.deepEqual(array?.inputSchema.properties, { count: { type: 'integer' } })
    })
  })
}

suite('arguments', () => {
  const INVALID: Record<string, [tool: string, args: Record<string, unknown>, message: string]> = {
    'names a missing argument': ['groups.text', {}, 'words is required'],
    'names an argument of the wrong type': ['groups.text', { words: 3 }, 'words must be text'],
    'names an unknown argument': ['groups.text', { words: 'a', other: 1 }, 'unknown field "other"'],
    'names all errors at once': ['groups.text', { other: 1 }, 'words is required; unknown field "other"'],
    'refuses arguments of a tool that takes none': [
      'groups.nothing',
      { constructor: 1 },
      'unknown field "constructor"',
    ],
    'takes the arguments of the tool, not of the verb': [
      'groups.array',
      { limit: 2 },
      'count is required; unknown field "limit"',
    ],
  }
  for (const [name, [tool, args, message]] of Object.entries(INVALID)) {
    test(name, async (t) => {
      const session = await (await openTest(t)).open(agent('main'))
      assert.equal(await session.refusal(tool, args), message)
    })
  }

  test('answers arguments that are not an object with a protocol error', async (t) => {
    const { client } = await (await openTest(t)).open(agent('main'))
    for (const wrong of [[], null, 'a', 1]) {
      const params: Record<string, unknown> = { name: 'groups.nothing', arguments: wrong }
      assert.match(await protocolError(client.request({ method: 'tools/call', params })), /^-32602 .*arguments/s)
    }
  })
})

suite('failures', () => {
  test('reports an unexpected error and hides it from the caller', async (t) => {
    const { reported, open } = await openTest(t)
    const session = await open(agent('main'))
    assert.equal(await session.refusal('groups.broken'), 'internal error')
    assert.deepEqual(reported, [`groups.broken: Error: ${SECRET}`])
  })

  test('does not report a refusal', async (t) => {
    const { reported, open } = await openTest(t)
    const session = await open(person('github:1'))
    await assert.rejects(session.call('groups.forbidden'))
    assert.deepEqual(reported, [])
  })

  test('refuses lists and calls when the policy cannot be read', async (t) => {
    const { at, reported } = await openTest(t)
    const broken: InstanceHost = {
      ...at.host,
      policies: Object.assign(Object.create(at.host.policies), {
        read: () => Promise.reject(new Error(SECRET)),
      }),
    }
    const onError = (error: unknown, what: string) => reported.push(`${what}: ${String(error)}`)
    const session = await openTools(t, broken, agent('main'), { list: LIST, onError })
    assert.equal(await protocolError(session.tools()), '-32603 internal error')
    assert.equal(await session.refusal('groups.nothing'), 'internal error')
    assert.deepEqual(reported, [`tools/list: Error: ${SECRET}`, `groups.nothing: Error: ${SECRET}`])
  })

  test('refuses lists and calls with the message of an unavailable store', async (t) => {
    const { at } = await openTest(t)
    const unavailable: InstanceHost = {
      ...at.host,
      engine: { ...at.host.engine, read: () => refuse('unavailable', 'the store is busy') },
    }
    const session = await openTools(t, unavailable, agent('main'), { list: LIST })
    assert.equal(await protocolError(session.tools()), '-32053 the store is busy')
    assert.equal(await session.refusal('get_thing'), 'the store is busy')
  })
})

suite('a tool that is not listed does not exist', () => {
  const unknown = (name: string) => `-32602 unknown tool: ${name}`

  test('for an agent without a rule, with any arguments', async (t) => {
    const { at, open } = await openTest(t)
    await at.groups('team')
    const session = await open(agent('team'))
    assert.deepEqual(await session.names(), [])
    for (const args of [{}, { words: 'a' }, { other: 1 }, { words: 3 }]) {
      assert.equal(await protocolError(session.call('groups.text', args)), unknown('groups.text'))
      assert.equal(await protocolError(session.call('groups.none', args)), unknown('groups.none'))
    }
  })

  test('like a name in another case, a verb without `when`, and members of Object.prototype', async (t) => {
    const session = await (await openTest(t)).open(agent('main'))
    for (const name of [
      'groups.hidden',
      'Groups.nothing',
      'groups.nothing ',
      '',
      'submit_turn',
      '__proto__',
      'toString',
    ])
      assert.equal(await protocolError(session.call(name)), unknown(name))
    assert.equal(await protocolError(session.call('x'.repeat(5000))), unknown('x'.repeat(80)))
  })

  test('audits the attempt once, and nothing else', async (t) => {
    const { at, open } = await openTest(t)
    const session = await open(agent('team'))
    await assert.rejects(session.call('groups.none'))
    await assert.rejects(session.call('groups.nothing'))
    await assert.rejects(session.call('groups.text', { words: 3 }))
    const rows = await at.host.engine.read((tx) => audit.list(tx))
    assert.deepEqual(
      rows.map(({ action, actor, outcome, surface, error_msg }) => ({ action, actor, outcome, surface, error_msg })),
      ['nothing', 'text'].map((name) => ({
        action: `groups.${name}`,
        actor: 'folder:team',
        outcome: 'denied',
        surface: 'tool',
        error_msg: `groups.${name}: not listed for the caller`,
      })),
    )
  })

  test('lists for a person what a row allows in some folder, without grants', async (t) => {
    const { at, open } = await openTest(t)
    await at.groups('team')
    const session = await open(person('github:1'))
    assert.deepEqual(await session.names(), [])
    await at.grant('github:1', 'mcp:groups.forbidden', 'team')
    assert.deepEqual(
      (await session.tools()).map(({ name, description }) => [name, description]),
      [['groups.forbidden', 'Try it.']],
    )
    assert.match(await session.refusal('groups.forbidden'), /^groups\.forbidden: not permitted/)
    await at.grant('github:1', 'admin', 'team')
    assert.equal((await session.names()).length, LIST.definitions.length)
  })

  test('lists nothing for a person whose only row is a deny', async (t) => {
    const { at, open } = await openTest(t)
    await at.grant('github:1', 'admin', '**', 'deny')
    assert.deepEqual(await (await open(person('github:1'))).names(), [])
  })

  test('lists everything for the command line', async (t) => {
    const session = await (await openTest(t)).open({ kind: 'host', sub: 'cli' })
    assert.equal((await session.names()).length, LIST.definitions.length)
    assert.equal(await session.call('groups.forbidden'), 'ok')
  })
})

test('determines the caller anew for every request', async (t) => {
  const { at } = await openTest(t)
  let caller: Caller = agent('team')
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  const server = createToolServer({
    list: LIST,
    requestContext: () => ({ host: at.host, caller, face: 'tool' }),
    onError: assert.fail,
  })
  const client = new Client({ name: 'test', version: '1' })
  await Promise.all([server.connect(theirs), client.connect(ours)])
  assert.equal((await client.listTools()).tools.length, 0)
  caller = agent('main')
  assert.equal((await client.listTools()).tools.length, LIST.definitions.length)
  await client.close()
})

test('shares JSON schemas between connections', () => {
  const policy = compilePolicy([], [])
  const [one, two] = [toolsVisibleTo(LIST, policy, agent('main')), toolsVisibleTo(LIST, policy, agent('main'))]
  for (const [index, { inputSchema }] of one.entries()) assert.equal(inputSchema, two[index]?.inputSchema)
})

test('rejects two tools with one name', () => {
  const [tool] = resourceTools([things])
  assert.ok(tool)
  assert.throws(() => createToolList([tool, tool]), /two tools have the name groups\.nothing/)
})
