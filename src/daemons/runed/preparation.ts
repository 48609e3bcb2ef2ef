// Everything that a run is told, gathered when it starts: the prompt, the session, the money, the keys, the time.
import type { RunSockets } from '../../agent-socket/run-socket.ts'
import type { ChatPlace } from '../../cell/cell.ts'
import { makeChatHome } from '../../core/chat-home.ts'
import type { Asked, ClaimedTurn } from '../../core/claim.ts'
import { type Conversation, conversations, findConversation, resetSessions } from '../../core/conversations.ts'
import { launchConfig, offeredTools } from '../../core/group-config.ts'
import { childNames, groups } from '../../core/groups.ts'
import { openHome } from '../../core/home.ts'
import { chatDir, groupDirs, type Layout } from '../../core/layout.ts'
import { textOf } from '../../core/messages.ts'
import { renderPrompt } from '../../core/prompt.ts'
import { promptParts } from '../../core/prompt-parts.ts'
import { topicName } from '../../core/routed.ts'
import { runSecrets } from '../../core/run-secrets.ts'
import { bodyOf, maySteer } from '../../core/steering.ts'
import { reachOfTurn, type Turn } from '../../core/turns.ts'
import { isPlainValue } from '../../core/values.ts'
import { workspaceTexts } from '../../core/workspace-texts.ts'
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { Runtimes } from '../../runtimes/index.ts'
import type { Heard } from '../../runtimes/runtime.ts'
import type { Tx } from '../../store/engine.ts'
import { run } from '../../store/statement.ts'
import type { CurrentSettings } from './current-settings.ts'
import { keepAttachments } from './media.ts'
import type { Prepared } from './runner.ts'
import { turnLogFile } from './turn-logs.ts'
import { workspaceFiles } from './workspace-files.ts'

export interface PreparationOptions {
  readonly host: Host
  readonly layout: Layout
  readonly runtimes: Runtimes
  readonly sockets: RunSockets
  /** Read when a turn starts. */
  readonly settings: Pick<CurrentSettings, 'read'>
  readonly assistantName: string
  /** Told of stored values that a run cannot have. */
  warn(sentence: string): void
}

/** A session that nobody has spoken in for so long is not gone on with. */
const SESSION_IDLE_MS = 2 * 24 * 3_600_000
/** Of a file that a runtime asks for. */
const FILE_BYTES_MAX = 256 * 1024

export function preparing(options: PreparationOptions): (claimed: ClaimedTurn) => Promise<Prepared> {
  const { host, layout, runtimes, sockets, assistantName, warn } = options
  const { engine, clock, keyring, instance, timeZone, rules } = host
  return async (waiting) => {
    const claimed = await keepAttachments(host, layout, waiting)
    const { turn, asked } = claimed
    const { folder, id, jid } = turn
    const reach = reachOfTurn(turn)
    const dirs = groupDirs(layout, folder)
    const files = workspaceFiles(layout, folder)
    const now = clock.now()
    const tell = async (tx: Tx) => {
      const world = { instance, now, timeZone, rules, routes: await host.routes.read(tx), assistantName, files }
      const conversation = await findConversation(tx, folder, turn.topic)
      return {
        ...(await promptParts(tx, world, claimed)),
        conversation,
        isIdle: await isIdle(tx, conversation, now),
        config: launchConfig((await groups.find(tx, { folder }))?.config, (sentence) =>
          warn(`group ${folder}: ${sentence}`),
        ),
        secrets: await runSecrets(tx, keyring, { folder, sub: askerOf(claimed), reach }, warn),
        children: reach === 'chat' ? await childNames(tx, folder) : undefined,
      }
    }
    let told = await engine.read(tell)
    if (told.isIdle) {
      await forgetSession(host, turn, now)
      told = await engine.read(tell)
    }
    const { conversation, config, children } = told
    const sessionId = turn.is_isolated ? undefined : plainSession(conversation?.session_id, warn)
    await noteShown(engine.transaction.bind(engine), conversation, told.observed_seq)
    const { settings } = await options.settings.read()
    const runtime = await runtimes.runtimeFor(config, settings)
    const socket = await sockets.open(folder, { id, fence: turn.fence, reach, offered: offeredTools(config) })
    return {
      runtime,
      close: () => socket.close(),
      job: {
        turnId: id,
        fence: turn.fence,
        folder,
        topic: topicName(turn.topic),
        jid,
        sender: turn.sender,
        prompt: renderPrompt(told.parts),
        messages: asked.map((each) => heard(each, { folder, topic: topicName(turn.topic), assistantName })),
        said: turn.replies,
        sessionId,
        parentSessionId: sessionId === undefined ? plainSession(conversation?.parent_session, warn) : undefined,
        socket: socket.path,
        home: dirs.home,
        openHome: async () => (await openHome(layout, folder)) ?? refuse('not_found', `${folder} has no workspace`),
        chat: children && chatPlace(options, { folder, jid, children }),
        readText: (name) => workspaceTexts(layout, folder, [name], FILE_BYTES_MAX)[0],
        logFile: turnLogFile(dirs, id, now),
        moneyCents: turn.money_cents,
        deadline: now + settings.TURN_DEADLINE,
        hangMs: settings.TURN_HANG,
        ...told.secrets,
        config,
        seenAt: () => host.alive.get(id),
      },
    }
  }
}

function chatPlace(
  { layout, warn }: PreparationOptions,
  { folder, jid, children }: { folder: string; jid: string; children: ReadonlySet<string> },
): ChatPlace {
  return {
    path: chatDir(layout, folder, jid),
    open: () => makeChatHome(layout, folder, jid),
    children,
    onLeftOut: (count) => warn(`the workspace of ${folder} has too many entries: visitors' turns do not see ${count}`),
  }
}

/** What the last turn here has ended long ago is not gone on with. */
async function isIdle(tx: Tx, conversation: Conversation | undefined, now: number): Promise<boolean> {
  if (conversation?.session_id === undefined) return false
  const { rows } = await run(
    tx,
    `select ended_at from session_log where folder = $1 and topic = $2 order by id desc limit 1`,
    [conversation.folder, conversation.topic],
  )
  return Date.parse(String(rows[0]?.ended_at ?? '')) < now - SESSION_IDLE_MS
}

async function forgetSession({ engine }: Host, { folder, topic }: Turn, now: number): Promise<void> {
  await engine.transaction(async (tx) => {
    await resetSessions(tx, folder, topic, timestamp(now))
    const note = 'The session before was long ago; this is a fresh one.'
    await conversations.update(tx, { folder, topic }, { note })
  })
}

/** What the agent is shown once is written down before it is shown; mostly there is nothing. */
async function noteShown(
  write: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>,
  conversation: Conversation | undefined,
  observed_seq: number,
): Promise<void> {
  if (!conversation || (conversation.observed_seq === observed_seq && conversation.note === undefined)) return
  const { folder, topic } = conversation
  await write((tx) => conversations.update(tx, { folder, topic }, { observed_seq, note: undefined }))
}

function heard({ message, envelope }: Asked, taken: Parameters<typeof bodyOf>[1]): Heard {
  const { id, sender, content, jid } = message
  const text = textOf(content)
  return { id, sender, text: maySteer({ jid, sender, envelope }) ? bodyOf(text, taken) : text, jid }
}

/** The person who wrote every message of the turn. A turn that somebody else added to is not given their secrets. */
function askerOf({ turn, asked }: ClaimedTurn): string | undefined {
  return asked.every(({ message }) => message.sender === turn.user_sub) ? turn.user_sub : undefined
}

/** A session id comes from the agent's own output and becomes an argument of its next run. */
function plainSession(id: string | undefined, warn: (sentence: string) => void): string | undefined {
  if (id === undefined || isPlainValue(id)) return id
  warn('a session id contains control characters: the run starts a fresh session')
  return undefined
}
