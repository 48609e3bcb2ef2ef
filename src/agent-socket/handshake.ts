// Answers the `initialize` request of a simple client, such as our own runtimes, without the official package, which creates
// a server for each connection. A connection that only calls tools does not need one.
import { type JSONRPCRequest, SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/server'
import { CAPABILITIES, serverInfo } from '../faces/mcp.ts'
import { isObject } from '../lib/text/json.ts'

const MEMBERS: ReadonlySet<string> = new Set(['protocolVersion', 'capabilities', 'clientInfo', '_meta'])
const CLIENT_MEMBERS: ReadonlySet<string> = new Set(['name', 'version'])
/** Prefix of `_meta` keys that belong to the protocol. */
const PROTOCOL_META = 'io.modelcontextprotocol/'

/** The result of an `initialize` request; undefined if the package must handle it. */
export function plainHandshake({ method, params }: Pick<JSONRPCRequest, 'method' | 'params'>): object | undefined {
  if (method !== 'initialize' || params === undefined || !hasOnly(params, MEMBERS)) return undefined
  const { protocolVersion, capabilities, clientInfo, _meta = {} } = params
  const isPlain =
    isVersion(protocolVersion) && isEmpty(capabilities) && isPlainClient(clientInfo) && !hasProtocolMeta(_meta)
  return isPlain ? { protocolVersion, capabilities: CAPABILITIES, serverInfo: serverInfo() } : undefined
}

function isVersion(version: unknown): boolean {
  return typeof version === 'string' && SUPPORTED_PROTOCOL_VERSIONS.includes(version)
}

function isEmpty(capabilities: unknown): boolean {
  return isObject(capabilities) && Object.keys(capabilities).length === 0
}

function isPlainClient(client: unknown): boolean {
  return (
    isObject(client) &&
    hasOnly(client, CLIENT_MEMBERS) &&
    typeof client.name === 'string' &&
    typeof client.version === 'string'
  )
}

function hasProtocolMeta(meta: object): boolean {
  return Object.keys(meta).some((name) => name.startsWith(PROTOCOL_META))
}

function hasOnly(value: object, members: ReadonlySet<string>): boolean {
  return Object.keys(value).every((name) => members.has(name))
}
