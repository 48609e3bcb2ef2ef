// The tools of a person, entered with a bearer: the same three over all groups that they may speak with, and the routes of
// the front door for whoever may change those.
import type { Handler } from 'hono'
import { judge } from '../../core/access.ts'
import { CallRates } from '../../core/call-rate.ts'
import { claimsOf } from '../../core/caller.ts'
import { groups } from '../../core/groups.ts'
import { readHistory } from '../../core/history.ts'
import { receive } from '../../core/inbound.ts'
import { queueUp } from '../../core/messages.ts'
import { speakingOf } from '../../core/rounds.ts'
import { routeTokens } from '../../core/route-tokens.ts'
import { mustHaveStorage, type StorageQuotas } from '../../core/storage-use.ts'
import { serverOf, toolList, toolsOf } from '../../faces/mcp.ts'
import { problem, readBytes } from '../../lib/http.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Asking, Host } from '../../registry/context.ts'
import { INSTANCE } from '../../registry/needs.ts'
import { type Tool, Unlisted } from '../../registry/tool.ts'
import { proxydRoutesResource } from '../../resources/proxyd-routes.ts'
import type { Tx } from '../../store/engine.ts'
import { askWith, incomingOf } from '../request.ts'
import { noSession, openExchanges, SESSION } from './mcp-exchange.ts'
import { mustBeOwnOrigin } from './mcp-origin.ts'
import { type Speaker, speakingTools } from './mcp-tools.ts'

export interface AccountOptions {
  readonly host: Host
  readonly bodyMax: number
  readonly quotas: StorageQuotas
  /** What nobody refused on purpose. */
  readonly onError: (error: unknown, tool: string) => void
}

export interface OpenAccountMcp {
  readonly answer: Handler
  close(): Promise<void>
}

/** A person has a name to speak under. */
type Person = Extract<Asking['caller'], { kind: 'person' }>
type Personal = Asking & { readonly caller: Person }

/** More groups than these are not listed. */
const GROUPS_MAX = 1000

export function openAccountMcp({ host, bodyMax, quotas, onError }: AccountOptions): OpenAccountMcp {
  const ask = askWith(host)
  const calls = new CallRates(host.limits.toolCallsPerSecond, host.clock)
  const speaking = speakingTools((asking: Personal) => speakerOf(asking, quotas))
  const routes = toolsOf([proxydRoutesResource]).map(forOperators)
  const list = toolList<Personal>([...speaking, ...routes])
  const shownTo = async (asking: Personal) => {
    const held = await judging(asking)
    const hidden = new Set(routes.filter(({ name }) => !held(`mcp:${name}`, INSTANCE)).map(({ name }) => name))
    return list.shown.filter(({ name }) => !hidden.has(name))
  }
  const { exchange, close } = openExchanges((asking: Personal) =>
    serverOf(
      {
        list,
        asking: () => asking,
        admit: ({ caller }) => calls.take(caller.sub),
        onError,
      },
      shownTo,
    ),
  )
  const answer: Handler = async (c) => {
    const { caller, ...asked } = await ask(c)
    if (caller.kind !== 'person') refuse('forbidden', 'these tools are for people, not for services')
    const header = (name: string): string | undefined => c.req.header(name)
    const local = incomingOf(c)?.socket.localAddress
    await mustBeOwnOrigin(host, { origin: header('origin'), host: header('host'), local })
    if (header(SESSION) !== undefined) throw noSession()
    if (c.req.method !== 'POST') return problem(new Refusal('not_allowed', 'this path takes POST'), { Allow: 'POST' })
    const body = await readBytes(c.req.raw, bodyMax)
    return exchange({ header, body, signal: c.req.raw.signal }, { ...asked, caller, face: 'tool' })
  }
  return { answer, close }
}

type Judging = (action: string, scope: string) => boolean

/** By the rights as they are now. */
async function judging({ host, caller }: Personal, tx?: Tx): Promise<Judging> {
  const read = (within: Tx) => host.policies.read(within)
  const policy = tx ? await read(tx) : await host.engine.read(read)
  const asker = { principal: caller.sub, claims: claimsOf(caller) }
  return (action, scope) => judge(policy, asker, { action, scope }).allow
}

/** To whoever may not change what belongs to the whole instance there is no such tool, wrongly called or not. */
function forOperators(tool: Tool): Tool<Personal> {
  return {
    ...tool,
    run: async (asking, args) => {
      try {
        return await tool.run(asking, args)
      } catch (error) {
        if (error instanceof Refusal && !(await judging(asking))(`mcp:${tool.name}`, INSTANCE))
          throw new Unlisted(tool.name)
        throw error
      }
    },
  }
}

function speakerOf(asking: Personal, quotas: StorageQuotas): Speaker {
  const { host, caller } = asking
  const { engine, signals } = host
  const speaking = speakingOf(host)

  /** The folder that is meant; what is out of reach is refused whether it is there or not. */
  async function mustReach(tx: Tx, named: string | undefined): Promise<string> {
    const folder = named ?? caller.folder ?? refuse('invalid', 'folder is required', 'list_groups says which there are')
    if (!(await judging(asking, tx))('interact', folder)) refuse('forbidden', `you may not speak with ${folder}`)
    if (!(await groups.find(tx, { folder }))) refuse('not_found', `there is no group ${folder}`)
    return folder
  }

  return {
    groups: () =>
      engine.read(async (tx) => {
        const held = await judging(asking, tx)
        const all = await groups.list(tx, {}, [['folder', 'asc']])
        const reached = all.filter(({ folder }) => held('interact', folder))
        const shown = reached.slice(0, GROUPS_MAX).map(({ folder, name }) => ({ folder, name }))
        return reached.length > GROUPS_MAX ? { groups: shown, truncated: true } : { groups: shown }
      }),

    send: async (named, { content, topic, content_type }) => {
      const { folder, received } = await engine.transaction(async (tx) => {
        // Before anything is read: what was read while others stood in line would be out of date.
        await queueUp(tx, engine.dialect)
        const folder = await mustReach(tx, named)
        await mustBeItsOwn(tx, folder)
        await mustHaveStorage(tx, quotas, { jid: chatOf(folder), folder, bytes: content.byteLength })
        const received = await receive(tx, speaking, {
          jid: chatOf(folder),
          target_folder: folder,
          sender: caller.sub,
          topic: topic ?? undefined,
          content,
          // More where they administer the folder, which routing finds out.
          reach: 'work',
          content_type: content_type ?? undefined,
          hasRound: true,
        })
        return { folder, received }
      })
      signals.emit(received.keys)
      return { turn_id: received.id, folder }
    },

    history: (named, request) =>
      engine.read(async (tx) => {
        const folder = await mustReach(tx, named)
        return { messages: await readHistory(tx, { jid: chatOf(folder), folder, ...request }), folder }
      }),
  }
}

/** Else whoever has that link would hear what is said with another folder. */
async function mustBeItsOwn(tx: Tx, folder: string): Promise<void> {
  const link = await routeTokens.find(tx, { jid: chatOf(folder) })
  if (link && (link.target_folder ?? folder) !== folder)
    refuse('conflict', `the chat of ${folder} belongs to a link of another folder`, 'revoke that link first')
}

function chatOf(folder: string): string {
  return `web:${folder}`
}
