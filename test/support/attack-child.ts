// Runs agents in cells for the escape tests, with the user of its parent. Commands and results are IPC messages.
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import { ByteRelay } from '../../src/agent-socket/byte-relay.ts'
import { refuseDescriptors } from '../../src/agent-socket/socket-options.ts'
import type { ChatDirectory, FilesDirectory } from '../../src/cell/cell.ts'
import type { Network } from '../../src/cell/network.ts'
import { agentUsers } from '../../src/core/agent-user.ts'
import { makeChatHome } from '../../src/core/chats/chat-home.ts'
import { FILES_HOME, hasChatFiles, openChatFiles } from '../../src/core/files/chat-files-directory.ts'
import { securePrivateDirectories } from '../../src/core/groups/private-directories.ts'
import { setUpFolder } from '../../src/core/groups/products.ts'
import { openHome } from '../../src/core/groups/workspace-home.ts'
import { type ChatPlace, chatDir, groupDirs, layout } from '../../src/core/layout.ts'
import { type EgressProxy, startProxy } from '../../src/egress/proxy.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { Refusal, refuse } from '../../src/lib/refusal.ts'
import { readSettings, sourceOf } from '../../src/lib/settings.ts'
import { openRuntimes } from '../../src/runtimes/index.ts'
import { RunFault } from '../../src/runtimes/runtime.ts'
import { RUNTIME_SETTINGS } from '../../src/runtimes/settings.ts'
import { giveToAgents } from './agent-files.ts'
import type { AttackOrder, AttackOutcome, AttackSetup } from './attack.ts'

const setup: AttackSetup = JSON.parse(process.argv[2] ?? '')
const places = layout(setup.root, agentUsers({ AGENT_UIDS: 1 }, setup.root))
for (const folder of setup.folders) await setUpFolder(places, folder)
await securePrivateDirectories(places)

/** Reads from connections and sends nothing: these attacks use no tools. Guarded like the socket of a run. */
const socket = join(setup.root, 'run.sock')
const server = createServer((connection) => connection.on('error', () => undefined).resume())
server.listen(setup.isRelayed ? `${socket}.svc` : socket)
await once(server, 'listening')
const relay = setup.isRelayed ? await ByteRelay.open(setup.root, 'run.sock', 'run.sock.svc') : undefined
if (!relay) refuseDescriptors(server)
giveToAgents(socket)
const delay = monitorEventLoopDelay({ resolution: 10 })
delay.enable()

let proxy: Promise<EgressProxy> | undefined
const network: Network = {
  open: async (folder) => {
    proxy ??= startProxy({ denyPrivate: true, log: () => {} })
    return (await proxy).openSource({ id: folder, allowlist: [], endpoints: [] })
  },
}
// Not the default runtime, for which svc would start a process without a cell.
const settings = { AGENT_RUNTIME: 'command', ...setup.settings }
const runtimes = await openRuntimes({
  settings: readSettings(RUNTIME_SETTINGS, [sourceOf('the test', new Map(Object.entries(settings)))]),
  clock: systemClock,
  groups: places.groups,
  chats: places.chats,
  files: places.files,
  network,
  warn: (sentence) => process.stderr.write(`${sentence}\n`),
})
const runtime = await runtimes.runtimeFor({ runtime: 'command' })

function chatPlace(place: ChatPlace): ChatDirectory {
  const { folder, reach } = place
  const below = setup.folders.filter((each) => each.startsWith(`${folder}/`))
  return {
    path: chatDir(places, place),
    open: () => makeChatHome(places, place),
    children: new Set(below.map((each) => each.slice(folder.length + 1).split('/')[0] ?? '')),
    isVisitor: reach === 'chat',
    writable: new Set(reach === 'chat' ? [] : ['data']),
  }
}

function filesOf(place: { readonly folder: string; readonly jid: string }): FilesDirectory | undefined {
  const user = agentUsers({ AGENT_UIDS: 1 }, setup.root)
  const open = async () => (await openChatFiles(places, place, user)) ?? refuse('not_found', 'it was removed')
  return hasChatFiles(places, place) ? { visiblePath: FILES_HOME, open } : undefined
}

/** Resets it. */
async function measureStall(): Promise<number> {
  // The sample after a stall comes with the next tick of its timer.
  await pause(50)
  const stallMs = delay.max / 1e6
  delay.reset()
  return stallMs
}

async function run({
  folder,
  command,
  env,
  topic,
  jid,
  reach,
  sessionId,
  hangMs,
}: AttackOrder): Promise<Omit<AttackOutcome, 'id' | 'stallMs'>> {
  try {
    const { result = '' } = await runtime.run({
      ...{ turnId: 't1', fence: 1, folder, topic, jid, sessionId, sender: 'anon:1', prompt: 'attack', messages: [] },
      ...{ sentCount: 0, socket, home: groupDirs(places, folder).home, env, hangMs, config: { command } },
      openHome: async () => (await openHome(places, folder)) ?? refuse('not_found', `${folder} has no workspace`),
      files: filesOf({ folder, jid }),
      chat: reach === 'chat' || reach === 'work' ? chatPlace({ folder, jid, reach }) : undefined,
      readText: () => undefined,
      logFile: join(setup.root, 'turn.log'),
      deadline: Date.now() + 60_000,
      signal: new AbortController().signal,
    })
    return { result }
  } catch (error) {
    if (error instanceof Refusal) return { fault: { kind: error.code, message: error.message } }
    if (!(error instanceof RunFault)) throw error
    return { fault: { kind: error.kind, message: error.message } }
  }
}

process.on('message', (order: AttackOrder) => {
  void run(order).then(async (outcome) => {
    process.send?.({ id: order.id, stallMs: await measureStall(), ...outcome } satisfies AttackOutcome)
  })
})
process.send?.('ready')
await once(process, 'disconnect')
relay?.close()
await runtimes.close()
await (await proxy)?.close()
process.exit()
