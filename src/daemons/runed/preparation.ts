// Prepares a claimed turn: attachments, prompt, session, budget, secrets, tool socket and runtime.
import { accessSync, constants, statSync } from 'node:fs'
import type { BoundTurn } from '../../agent-socket/connection.ts'
import type { RunSockets } from '../../agent-socket/run-socket.ts'
import type { ChatDirectory, FilesDirectory } from '../../cell/cell.ts'
import type { CellSettings } from '../../cell/settings.ts'
import type { AgentUser } from '../../core/agent-user.ts'
import { CHAT_HOME, makeChatHome } from '../../core/chats/chat-home.ts'
import { FILES_HOME, hasChatFiles, openChatFiles } from '../../core/files/chat-files-directory.ts'
import { configFingerprint } from '../../core/groups/config-fingerprint.ts'
import { launchConfig, offeredTools, workPaths } from '../../core/groups/group-config.ts'
import { childNames, groups } from '../../core/groups/groups.ts'
import { AGENT_HOME, openHome } from '../../core/groups/workspace-home.ts'
import type { WorldOwners } from '../../core/groups/workspace-owner.ts'
import { readWorkspaceTexts } from '../../core/groups/workspace-texts.ts'
import { type ChatPlace, chatDir, chatFilesDir, groupDirs, type Layout } from '../../core/layout.ts'
import { decodeContent } from '../../core/messages/messages.ts'
import { renderPrompt } from '../../core/prompt/prompt.ts'
import { type GatheredPrompt, gatherPromptParts } from '../../core/prompt/prompt-parts.ts'
import { mayUseDirectives, stripDirective } from '../../core/routing/message-directive.ts'
import { displayTopic } from '../../core/routing/routing-decision.ts'
import { openSecrets, readSecretLevels } from '../../core/secrets/run-secrets.ts'
import { type Conversation, conversations, resetSessionOf } from '../../core/turns/conversations.ts'
import type { ClaimedMessage, ClaimedTurn } from '../../core/turns/turn-claim.ts'
import { turnLogFile } from '../../core/turns/turn-log-files.ts'
import { reachOfTurn, type Turn } from '../../core/turns/turns.ts'
import { isPlainValue } from '../../core/values.ts'
import { timestamp } from '../../lib/clock.ts'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import type { Directory } from '../../lib/files/directory.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Runtimes } from '../../runtimes/index.ts'
import { RunFault, type TurnMessage } from '../../runtimes/runtime.ts'
import { TurnLog } from '../../runtimes/turn-log.ts'
import type { Tx } from '../../store/engine.ts'
import { saveAttachments } from './attachments.ts'
import type { CurrentSettings } from './current-settings.ts'
import { formatToolCall } from './tool-call-line.ts'
import { type TranscriptionService, transcribeMessages } from './transcription.ts'
import type { TurnRunnerOptions } from './turn-runner.ts'
import { workspaceFiles } from './workspace-files.ts'

export interface PreparationOptions {
  readonly host: InstanceHost
  readonly layout: Layout
  readonly owners: Pick<WorldOwners, 'userOf'>
  readonly runtimes: Runtimes
  readonly sockets: RunSockets
  readonly settings: Pick<CurrentSettings, 'read'>
  readonly sandbox: CellSettings['SANDBOX']
  readonly assistantName: string
  /** Absent unless a speech-to-text service is configured. */
  readonly transcription?: TranscriptionService | undefined
  /** Called for stored values that a run cannot use. */
  warn(message: string): void
}

/** An older session is not resumed. */
const SESSION_IDLE_MS = 2 * 24 * 3_600_000
/** Limit of a workspace file that a runtime reads. */
const FILE_BYTES_MAX = 256 * 1024

export function turnPreparation(options: PreparationOptions): TurnRunnerOptions['prepare'] {
  const { host, layout, owners, runtimes, sockets, assistantName, transcription: service, warn } = options
  const { engine, clock, keyring, instance, timeZone, rules } = host
  return async (unprepared, { activity, stop }) => {
    const user = await owners.userOf(unprepared.turn.folder)
    const saved = await saveAttachments(host, layout, unprepared)
    const claimed = service ? await transcribeMessages({ host, layout, service, warn }, saved, stop) : saved
    const { turn, messages } = claimed
    const { folder, id, jid } = turn
    const reach = reachOfTurn(turn)
    const dirs = groupDirs(layout, folder)
    const files = workspaceFiles(layout, folder)
    // Root gives workspaces to their agents above.
    if (!user)
      mustBeUsable(dirs.home, {
        folder,
        isWritten: reach === 'all',
        repair: host.showCommands(`sudo svc doctor ${instance} --fix`),
      })
    const now = clock.now()
    const filesPath = options.sandbox === 'none' ? chatFilesDir(layout, turn) : FILES_HOME
    const gather = async (tx: Tx) => {
      const routes = await host.routes.read(tx)
      const group = await groups.find(tx, { folder })
      const promptContext = { instance, now, timeZone, rules, routes, assistantName, group, files, filesPath }
      const promptParts = await gatherPromptParts(tx, promptContext, claimed)
      const levels = await readSecretLevels(tx, { folder, sub: soleSender(claimed), reach })
      return {
        ...promptParts,
        groupConfig: group?.config,
        levels,
        config: launchConfig(group?.config, (message) => warn(`group ${folder}: ${message}`)),
        secrets: openSecrets(levels, keyring, reach, warn),
        children: reach === 'all' ? undefined : await childNames(tx, folder),
      }
    }
    let [gathered, { settings, mark }] = await Promise.all([engine.read(gather), options.settings.read()])
    if (isSessionExpired(gathered, now)) {
      await resetSession(host, turn, now)
      gathered = await engine.read(gather)
    }
    const { conversation, config } = gathered
    const sessionId = turn.is_isolated ? undefined : validSession(gathered.session, warn)
    const chat = reach === 'all' ? undefined : chatDirectory(options, { folder, jid, reach }, config, gathered.children)
    await markShown(engine.transaction.bind(engine), conversation, gathered.observed_seq)
    const runtime = await runtimes.runtimeFor(config, settings)
    let hadOutage = false
    const onOutage = (): void => {
      hadOutage = true
    }
    const offered = offeredTools(config)
    const logFile = turnLogFile(dirs, id, now)
    const log = new TurnLog(logFile)
    const onCall: BoundTurn['onCall'] = ({ tool, args }) => {
      const end = activity.start({ tool: tool.name, phrase: tool.activity, args }, tool.input)
      return (report) => {
        end(report?.result.isError ?? report === undefined)
        if (report) log.write(Buffer.from(`${formatToolCall(report)}\n`))
      }
    }
    const fault = new AbortController()
    let isClosed = false
    const onFault = (error: unknown): void => (isClosed ? host.faults.report('turn', error) : fault.abort(error))
    const bound = { id, fence: turn.fence, reach, offered, onOutage, onCall, onFault }
    const socket = await sockets.open(folder, bound, user)
    return {
      runtime,
      configMark: configFingerprint(gathered.groupConfig, gathered.levels, mark),
      hadOutage: () => hadOutage,
      fault: fault.signal,
      close: async () => {
        isClosed = true
        await socket.close()
        await log.close()
      },
      job: {
        turnId: id,
        fence: turn.fence,
        folder,
        user,
        topic: displayTopic(turn.topic),
        jid,
        sender: turn.sender,
        prompt: renderPrompt({ ...gathered.parts, writable: chat && writablePaths(chat) }),
        messages: messages.map((message) =>
          jobMessageOf(message, gathered.filesOf, { folder, topic: displayTopic(turn.topic), assistantName }),
        ),
        sentCount: turn.replies,
        sessionId,
        // Its files are in the HOME of reach `all`, or in that of the same visitors' chat.
        parentSessionId:
          sessionId === undefined && reach !== 'work' ? validSession(conversation?.parent_session, warn) : undefined,
        socket: socket.path,
        home: dirs.home,
        openHome: () => openWorkspace(options, folder, chat?.writable),
        chat,
        files: hasChatFiles(layout, turn) ? filesDirectory(layout, turn, user, filesPath) : undefined,
        readText: (name) => readWorkspaceTexts(layout, folder, [name], FILE_BYTES_MAX)[0],
        logFile,
        moneyCents: claimed.moneyCents,
        deadline: now + settings.TURN_DEADLINE,
        hangMs: settings.TURN_HANG,
        ...gathered.secrets,
        config,
        lastActivityAt: () => host.lastSocketUse.get(id),
      },
    }
  }
}

function chatDirectory(
  { layout, warn }: PreparationOptions,
  place: ChatPlace,
  config: Readonly<Record<string, unknown>>,
  children: ReadonlySet<string> = new Set(),
): ChatDirectory {
  const { folder, reach } = place
  const names = reach === 'chat' ? [] : workPaths(config)
  return {
    path: chatDir(layout, place),
    open: () => makeChatHome(layout, place),
    children,
    isVisitor: reach === 'chat',
    // The workspace of a child belongs to the child.
    writable: new Set(names.filter((name) => !children.has(name))),
    onOmitted: (count) =>
      warn(`the workspace of ${folder} has too many entries: turns of reach ${reach} do not see ${count} or more`),
  }
}

function filesDirectory(
  layout: Layout,
  { folder, jid }: Turn,
  user: AgentUser | undefined,
  visiblePath: string,
): FilesDirectory {
  const open = async (): Promise<Directory> =>
    (await openChatFiles(layout, { folder, jid }, user)) ??
    refuse('not_found', `the directory with the files of a chat of ${folder} was removed`)
  return { visiblePath, open }
}

/** For the prompt of a run of reach `work`. */
function writablePaths({ isVisitor, writable }: ChatDirectory): string[] | undefined {
  return isVisitor ? undefined : [...[...writable].map((name) => `${AGENT_HOME}/${name}/`), `${CHAT_HOME}/`]
}

/** Creates the directories that the run may write, so that they can be mounted. */
async function openWorkspace(
  { layout, warn }: PreparationOptions,
  folder: string,
  writable: ReadonlySet<string> = new Set(),
): Promise<Directory> {
  const home = (await openHome(layout, folder)) ?? refuse('not_found', `${folder} has no workspace`)
  for (const name of writable) {
    try {
      await (await home.makePath(name)).close()
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      warn(`turns of reach work cannot write ${name} of ${folder}: it is not a directory`)
    }
  }
  return home
}

function isSessionExpired({ session, lastSessionLog }: GatheredPrompt, now: number): boolean {
  return session !== undefined && Date.parse(lastSessionLog?.ended_at ?? '') < now - SESSION_IDLE_MS
}

async function resetSession({ engine }: InstanceHost, turn: Turn, now: number): Promise<void> {
  const { folder, topic } = turn
  await engine.transaction(async (tx) => {
    await resetSessionOf(tx, turn, reachOfTurn(turn), timestamp(now))
    const note = 'The previous session was long ago; this is a new one.'
    await conversations.update(tx, { folder, topic }, { note })
  })
}

/** Records before the run that it is shown the note and the observed messages; usually there are none. */
async function markShown(
  write: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>,
  conversation: Conversation | undefined,
  observed_seq: number,
): Promise<void> {
  if (!conversation || (conversation.observed_seq === observed_seq && conversation.note === undefined)) return
  const { folder, topic } = conversation
  await write((tx) => conversations.update(tx, { folder, topic }, { observed_seq, note: undefined }))
}

function jobMessageOf(
  { message, envelope }: ClaimedMessage,
  filesOf: GatheredPrompt['filesOf'],
  context: Parameters<typeof stripDirective>[1],
): TurnMessage {
  const { seq, id, sender, content, jid } = message
  const given = decodeContent(content)
  const text = mayUseDirectives({ jid, sender, envelope }) ? stripDirective(given, context) : given
  const files = filesOf
    .get(seq)
    ?.map(({ name, type, size, path, transcript }) => ({ name, type, size, path, transcript }))
  return { id, sender, text, jid, files }
}

/** The person who sent every message of the turn. A turn with messages of others does not get their secrets. */
function soleSender({ turn, messages }: ClaimedTurn): string | undefined {
  return messages.every(({ message }) => message.sender === turn.user_sub) ? turn.user_sub : undefined
}

/** A session id comes from the agent's output and becomes an argument of its next run. */
function validSession(id: string | undefined, warn: (message: string) => void): string | undefined {
  if (id === undefined || isPlainValue(id)) return id
  warn('a session id contains control characters: the run starts a new session')
  return undefined
}

/** A workspace of another user, as commands of root left it in earlier versions: its agent could not work in it. */
function mustBeUsable(
  home: string,
  { folder, isWritten, repair }: { readonly folder: string; readonly isWritten: boolean; readonly repair: string },
): void {
  try {
    accessSync(home, constants.R_OK | constants.X_OK | (isWritten ? constants.W_OK : 0))
  } catch (error) {
    // A missing one has its own message.
    if (errnoCode(error) !== 'EACCES') return
    const { uid } = statSync(home)
    const verb = isWritten ? 'written' : 'read'
    throw new RunFault(
      'unavailable',
      `the workspace of ${folder} cannot be ${verb}: it belongs to uid ${uid}, and svc runs as uid ${process.getuid?.()}; ${repair} repairs it`,
    )
  }
}
