// The tool face, as the official client sees it: over an in-memory transport, in both protocol generations.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { Client, InMemoryTransport, StreamableHTTPClientTransport, type Tool } from '@modelcontextprotocol/client'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import type { Caller } from '../../src/core/access/caller.ts'
import type { Reach } from '../../src/core/access/reach.ts'
import { createToolServer } from '../../src/faces/mcp.ts'
import { createToolList, resourceTools, standaloneTools, type ToolList } from '../../src/faces/tool-list.ts'
import type { InstanceHost, RequestContext } from '../../src/registry/context.ts'
import type { NamedVerb } from '../../src/registry/resource.ts'
import { aclResource } from '../../src/resources/acl.ts'
import { aclMembershipResource } from '../../src/resources/acl-membership.ts'
import { resources } from '../../src/resources/index.ts'
import { tools } from '../../src/tools/index.ts'
import type { TestHost } from './host.ts'

/** Tools of resources. */
export const ROW_TOOLS: ToolList = createToolList(resourceTools(resources))

/** Every tool of the product. */
export const PRODUCT_TOOLS: ToolList = createToolList([...resourceTools(resources), ...standaloneTools(tools)])

/** The verb of each resource tool. */
export const TOOL_VERBS: ReadonlyMap<string, NamedVerb> = new Map(
  resources.flatMap(({ verbs }) =>
    Object.values(verbs).flatMap((verb) => (verb.when === undefined ? [] : [[verb.toolName, verb]])),
  ),
)

export type Generation = 'handshake' | 'stateless'
export const GENERATIONS: readonly Generation[] = ['handshake', 'stateless']
const STATELESS = '2026-07-28'

export interface ToolSession {
  readonly client: Client
  tools(): Promise<Tool[]>
  names(): Promise<string[]>
  /** The result of a successful call: parsed JSON, or text. */
  call(name: string, args?: Record<string, unknown>): Promise<unknown>
  /** The text of a refused call. */
  refusal(name: string, args?: Record<string, unknown>): Promise<string>
}

export interface SessionOptions {
  list?: ToolList
  generation?: Generation
  /** The turn of the connection. */
  turn?: RequestContext['turn']
  /** The reach of the person who asked; everything by default. */
  reach?: Reach
  onError?(error: unknown, what: string): void
}

/** Opens a session of this caller. */
export async function openTools(
  t: TestContext,
  host: InstanceHost,
  caller: Caller,
  options: SessionOptions = {},
): Promise<ToolSession> {
  const { list = PRODUCT_TOOLS, generation = 'handshake', turn, reach, onError = rethrow } = options
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  const asking = () => ({ host, caller, face: 'tool' as const, ...(turn ? { turn } : {}), ...(reach ? { reach } : {}) })
  // The official entry for sockets, which detects the protocol generation of a connection.
  const served = serveStdio(() => createToolServer({ list, requestContext: asking, onError }), { transport: theirs })
  const client = clientOf(generation)
  await client.connect(ours)
  t.after(async () => {
    await client.close()
    await served.close()
  })
  return session(client)
}

function clientOf(generation: Generation): Client {
  const mode = generation === 'handshake' ? 'legacy' : { pin: STATELESS }
  return new Client({ name: 'test', version: '0' }, { versionNegotiation: { mode } })
}

/** The same over HTTP. */
export async function openHttpTools(
  t: TestContext,
  url: string,
  { generation = 'handshake', headers = {} }: { generation?: Generation; headers?: Record<string, string> } = {},
): Promise<ToolSession> {
  const client = clientOf(generation)
  t.after(() => client.close())
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
  return session(client)
}

function session(client: Client): ToolSession {
  const ask = async (name: string, args?: Record<string, unknown>) => {
    const answer = await client.callTool({ name, ...(args ? { arguments: args } : {}) })
    const [said, ...more] = answer.content
    assert.equal(more.length, 0)
    assert.ok(said?.type === 'text', 'an answer is one text')
    return { text: said.text, isError: answer.isError === true, structured: answer.structuredContent }
  }
  const tools = async (): Promise<Tool[]> => (await client.listTools()).tools
  return {
    client,
    tools,
    names: async () => (await tools()).map(({ name }) => name),
    call: async (name, args) => {
      const { text, isError, structured } = await ask(name, args)
      assert.ok(!isError, `${name} was refused: ${text}`)
      const answer: unknown = /^[[{]/.test(text) ? JSON.parse(text) : text
      // The structured content must equal the text.
      assert.deepEqual(structured, text.startsWith('{') ? answer : undefined)
      return answer
    },
    refusal: async (name, args) => {
      const { text, isError, structured } = await ask(name, args)
      assert.ok(isError, `${name} was not refused: ${text}`)
      assert.equal(structured, undefined)
      return text
    },
  }
}

function rethrow(error: unknown): never {
  throw error
}

/** Removes the permissions of `grant` and `operator` of the test host. */
export function revoking({ cli }: TestHost) {
  return {
    ungrant: (principal: string, action: string, scope: string, effect: 'allow' | 'deny' = 'allow') =>
      cli.call(aclResource.verbs.ungrant, { principal, action, scope, effect }),
    leave: (subject: string, role: string) => cli.call(aclMembershipResource.verbs.remove, { subject, role }),
  }
}
