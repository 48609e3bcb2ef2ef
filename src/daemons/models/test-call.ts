// Tests a model configuration with one real call: an HTTP request to the endpoint, or a short run of the program as in a turn.
import { join } from 'node:path'
import { ROOT_FOLDER } from '../../core/access/tiers.ts'
import { offeredTools } from '../../core/groups/group-config.ts'
import { openHome } from '../../core/groups/workspace-home.ts'
import { WorldOwners } from '../../core/groups/workspace-owner.ts'
import { groupDirs, type Layout } from '../../core/layout.ts'
import { MODEL_URLS } from '../../core/secrets/model-variables.ts'
import { createToolList, type ToolList } from '../../faces/tool-list.ts'
import { uuidv7 } from '../../lib/clock.ts'
import { makeProcessDirectory, removeProcessDirectory } from '../../lib/files/process-directory.ts'
import { openLog } from '../../lib/log/log.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { formatDuration } from '../../lib/text/duration.ts'
import { isObject } from '../../lib/text/json.ts'
import { collapseWhitespace } from '../../lib/text/whitespace.ts'
import type { InstanceHost, RequestContext } from '../../registry/context.ts'
import type { Tool } from '../../registry/tool.ts'
import { openRuntimes } from '../../runtimes/index.ts'
import { type Job, RunFault } from '../../runtimes/runtime.ts'
import { agentTools } from '../agents/agent-tools.ts'
import { RunNetworks } from '../agents/run-network.ts'
import { openRunSockets } from '../agents/run-sockets.ts'
import { CALL_TIMEOUT_MS, callModel, type ModelTestResult, TEST_PROMPT } from './model-api.ts'
import type { ModelConfig } from './model-config.ts'
import { findModelFaults } from './model-faults.ts'

const ANSWER_MAX = 200

/** Tests the configuration of the instance in the root folder. */
export async function testModel(
  host: InstanceHost,
  layout: Layout,
  config: ModelConfig,
  timeoutMs: number = CALL_TIMEOUT_MS,
): Promise<ModelTestResult> {
  const { folder = ROOT_FOLDER, runtime } = config
  const [fault] = findModelFaults(config, groupDirs(layout, folder).home)
  if (fault !== undefined) refuse('invalid', fault)
  if (runtime === 'demo') return { answer: '(the built-in demo needs no model)', ms: 0 }
  const { answer, ms } =
    runtime === 'openai'
      ? await callModel(
          { baseUrl: config.endpoint ?? '', key: config.key, isPublicOnly: config.isPublicOnly },
          config.model ?? '',
          timeoutMs,
        )
      : await runAgentProgram(host, layout, config, timeoutMs)
  return { answer: shorten(answer), ms }
}

function shorten(answer: string): string {
  const line = collapseWhitespace(answer)
  return line.length > ANSWER_MAX ? `${line.slice(0, ANSWER_MAX)}…` : line
}

/** Runs the program as a turn does: in a cell, with the folder's network rules and with a tool socket of its own. */
async function runAgentProgram(
  host: InstanceHost,
  layout: Layout,
  config: ModelConfig,
  timeoutMs: number,
): Promise<ModelTestResult> {
  const { folder = ROOT_FOLDER, settings } = config
  await using cleanup = new AsyncDisposableStack()
  const temporary = makeProcessDirectory('svc-model-', 0o700)
  cleanup.defer(() => removeProcessDirectory(temporary))
  const log = await openLog({ level: 'error' })
  const network = new RunNetworks({ host, log, denyPrivate: settings.NETWORK_DENY_PRIVATE })
  cleanup.defer(() => network.close())
  const { groups, chats, files } = layout
  const runtimes = await openRuntimes({
    settings,
    clock: host.clock,
    groups,
    chats,
    files,
    network,
    warn: () => undefined,
  })
  cleanup.defer(() => runtimes.close())
  const user = await new WorldOwners({ engine: host.engine, layout }).userOf(folder)
  let said: string | undefined
  const tools = testTools((text) => {
    said ??= text
  })
  const sockets = openRunSockets({ host, layout, log, settings }, tools)
  cleanup.defer(() => sockets.close())
  const turn = { id: uuidv7(host.clock, host.random), fence: 1 }
  cleanup.defer(() => void host.lastSocketUse.delete(turn.id))
  const socket = await sockets.open(folder, { ...turn, reach: 'all', offered: offeredTools(config.config) }, user)
  cleanup.defer(() => socket.close())
  const startedMs = performance.now()
  try {
    const runtime = await runtimes.runtimeFor({ ...config.config, runtime: config.runtime })
    const logFile = join(temporary, 'log')
    const { result } = await runtime.run(
      makeTestJob(host, layout, config, { turn, socket: socket.path, user, logFile, timeoutMs }),
    )
    return { answer: said || result || '(nothing)', ms: Math.round(performance.now() - startedMs) }
  } catch (error) {
    if (!(error instanceof RunFault)) throw error
    const reason = error.failure === 'late' ? `it took longer than ${formatDuration(timeoutMs)}` : error.message
    const message = config.key ? reason.replaceAll(config.key, '…') : reason
    // The message may quote the endpoint.
    const detail = config.isPublicOnly ? '' : `: ${message}`
    throw new Refusal('unavailable', `a run in ${folder} failed${detail}`)
  }
}

/** The tools of a turn. None of them changes anything; the first message that the agent sends is the answer of the test. */
function testTools(onMessage: (text: string) => void): ToolList {
  const tools = [...agentTools().tools.values()].map((tool): Tool => {
    const run = async (_request: RequestContext, args: unknown): Promise<void> => {
      if (!SPEECH.has(tool.name) || !isObject(args) || typeof args.text !== 'string')
        refuse('forbidden', `${tool.name}: this run only tests the model`, 'answer without tools')
      onMessage(args.text)
    }
    return { ...tool, run }
  })
  return createToolList(tools)
}

const SPEECH: ReadonlySet<string> = new Set(['reply', 'send'])

interface TestRun extends Pick<Job, 'socket' | 'user' | 'logFile'> {
  readonly turn: { readonly id: string; readonly fence: number }
  readonly timeoutMs: number
}

function makeTestJob(
  host: InstanceHost,
  layout: Layout,
  { folder = ROOT_FOLDER, env, config, isPublicOnly }: ModelConfig,
  { turn, socket, user, logFile, timeoutMs }: TestRun,
): Job {
  const jid = `web:${folder}`
  return {
    turnId: turn.id,
    fence: turn.fence,
    folder,
    user,
    topic: '',
    jid,
    sender: 'cli',
    prompt: TEST_PROMPT,
    messages: [{ id: turn.id, sender: 'cli', text: TEST_PROMPT, jid }],
    sentCount: 0,
    socket,
    home: groupDirs(layout, folder).home,
    openHome: async () => (await openHome(layout, folder)) ?? refuse('not_found', `${folder} has no workspace`),
    readText: () => undefined,
    logFile,
    deadline: host.clock.now() + timeoutMs,
    hangMs: timeoutMs,
    // Claude Code would retry for minutes, and its reason would come after the time limit.
    env: { CLAUDE_CODE_MAX_RETRIES: '2', ...env },
    ...(isPublicOnly ? { publicOnly: new Set(MODEL_URLS) } : {}),
    config,
    signal: new AbortController().signal,
    lastActivityAt: () => host.lastSocketUse.get(turn.id),
  }
}
