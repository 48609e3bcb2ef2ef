// The tool face over a made-up resource: what answers look like, and what nobody is told.
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
import { defineResource, defineVerb } from '../registry/resource.ts'
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
      toolInput: z.strictObject({ count: z.int() }).transform(({ count }) => ({ limit: count })),
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

interface Opened {
  at: TestHost
  reported: string[]
  open(caller: Caller): Promise<ToolSession>
}

async function opened(t: TestContext): Promise<Opened> {
  const at = await testHost(t)
  const reported: string[] = []
  const onError = (error: unknown, what: string) => reported.push(`${what}: ${String(error)}`)
  return { at, reported, open: (caller) => openTools(t, at.host, caller, { list: LIST, onError }) }
}

/** Code and sentence of a protocol error. */
async function protocolError(work: Promise<unknown>): Promise<string> {
  const error: unknown = await work.then(
    () => assert.fail('it was answered'),
    (error: unknown) => error,
  )
  assert.ok(error instanceof Error && 'code' in error)
  return `${error.code} ${error.message}`
}

for (const generation of GENERATIONS) {
  suite(`answers, ${generation}`, () => {
    test('every kind of answer', async (t) => {
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

    test('the list is sorted, and says what a tool takes and by which rules', async (t) => {
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
  const BAD: Record<string, [tool: string, args: Record<string, unknown>, sentence: string]> = {
    'what is missing is named': ['groups.text', {}, 'words is required'],
    'what has the wrong type is named': ['groups.text', { words: 3 }, 'words must be text'],
    'what is unknown is named': ['groups.text', { words: 'a', other: 1 }, 'unknown field "other"'],
    'all of it at once': ['groups.text', { other: 1 }, 'words is required; unknown field "other"'],
    'a tool that takes nothing takes nothing': ['groups.nothing', { constructor: 1 }, 'unknown field "constructor"'],
    "a tool's own arguments stand for the verb's": [
      'groups.array',
      { limit: 2 },
      'count is required; unknown field "limit"',
    ],
  }
  for (const [sentence, [tool, args, said]] of Object.entries(BAD)) {
    test(sentence, async (t) => {
      const session = await (await opened(t)).open(agent('main'))
      assert.equal(await session.refusal(tool, args), said)
    })
  }

  test('arguments that are no object are an error of the protocol', async (t) => {
    const { client } = await (await opened(t)).open(agent('main'))
    for (const wrong of [[], null, 'a', 1]) {
      const params: Record<string, unknown> = { name: 'groups.nothing', arguments: wrong }
      assert.match(await protocolError(client.request({ method: 'tools/call', params })), /^-32602 .*arguments/s)
    }
  })
})

suite('failures', () => {
  test('what nobody foresaw is reported, and not told', async (t) => {
    const { reported, open } = await opened(t)
    const session = await open(agent('main'))
    assert.equal(await session.refusal('groups.broken'), 'internal error')
    assert.deepEqual(reported, [`groups.broken: Error: ${SECRET}`])
  })

  test('a refusal is not reported', async (t) => {
    const { reported, open } = await opened(t)
    const session = await open(person('github:1'))
    await assert.rejects(session.call('groups.forbidden'))
    assert.deepEqual(reported, [])
  })

  test('rights that cannot be read are a refusal, in the list and in a call', async (t) => {
    const { at, reported } = await opened(t)
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

  test('who cannot be told any more is refused with the sentence', async (t) => {
    const { at } = await opened(t)
    const gone: InstanceHost = {
      ...at.host,
      engine: { ...at.host.engine, read: () => refuse('unavailable', 'the store is busy') },
    }
    const session = await openTools(t, gone, agent('main'), { list: LIST })
    assert.equal(await protocolError(session.tools()), '-32053 the store is busy')
    assert.equal(await session.refusal('get_thing'), 'the store is busy')
  })
})

suite('a tool that is not shown does not exist', () => {
  const unknown = (name: string) => `-32602 unknown tool: ${name}`

  test('for an agent without a rule, whatever it sends', async (t) => {
    const { at, open } = await opened(t)
    await at.groups('team')
    const session = await open(agent('team'))
    assert.deepEqual(await session.names(), [])
    for (const args of [{}, { words: 'a' }, { other: 1 }, { words: 3 }]) {
      assert.equal(await protocolError(session.call('groups.text', args)), unknown('groups.text'))
      assert.equal(await protocolError(session.call('groups.none', args)), unknown('groups.none'))
    }
  })

  test('nor does one in other letters, one without a `when`, or what objects have', async (t) => {
    const session = await (await opened(t)).open(agent('main'))
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

  test('the attempt is audited once, and nothing else is', async (t) => {
    const { at, open } = await opened(t)
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

  test('a person sees what a row allows somewhere, without a line of grants', async (t) => {
    const { at, open } = await opened(t)
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

  test('a person whose only row is a deny sees nothing', async (t) => {
    const { at, open } = await opened(t)
    await at.grant('github:1', 'admin', '**', 'deny')
    assert.deepEqual(await (await open(person('github:1'))).names(), [])
  })

  test('the command line sees everything', async (t) => {
    const session = await (await opened(t)).open({ kind: 'host', sub: 'cli' })
    assert.equal((await session.names()).length, LIST.definitions.length)
    assert.equal(await session.call('groups.forbidden'), 'ok')
  })
})

test('who asks is asked again at every request', async (t) => {
  const { at } = await opened(t)
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

test('connections share what is costly', () => {
  const policy = compilePolicy([], [])
  const [one, two] = [toolsVisibleTo(LIST, policy, agent('main')), toolsVisibleTo(LIST, policy, agent('main'))]
  for (const [index, { inputSchema }] of one.entries()) assert.equal(inputSchema, two[index]?.inputSchema)
})

test('two tools of one name are an error at the start', () => {
  const [tool] = resourceTools([things])
  assert.ok(tool)
  assert.throws(() => createToolList([tool, tool]), /two tools are called groups\.nothing/)
  assert.throws(
    () => createToolList([{ ...tool, input: z.string() }]).definitions,
    /the arguments of a tool are an object/,
  )
})
