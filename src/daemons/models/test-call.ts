// Tests a model configuration with one real call: an HTTP request to the endpoint, or a run of the program in a cell.
import { join } from 'node:path'
import { ROOT_FOLDER } from '../../core/access/tiers.ts'
import { openHome } from '../../core/groups/workspace-home.ts'
import { WorldOwners } from '../../core/groups/workspace-owner.ts'
import { groupDirs, type Layout } from '../../core/layout.ts'
import { MODEL_URLS } from '../../core/secrets/model-variables.ts'
import { makeProcessDirectory, removeProcessDirectory } from '../../lib/files/process-directory.ts'
import { openLog } from '../../lib/log/log.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { collapseWhitespace } from '../../lib/text/whitespace.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { openRuntimes } from '../../runtimes/index.ts'
import { type Job, RunFault } from '../../runtimes/runtime.ts'
import { RunNetworks } from '../agents/run-network.ts'
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

/** Runs the program like a turn does, in a cell with the folder's network rules, but without tools. */
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
  const { groups, chats } = layout
  const runtimes = await openRuntimes({ settings, clock: host.clock, groups, chats, network, warn: () => undefined })
  cleanup.defer(() => runtimes.close())
  const user = await new WorldOwners({ engine: host.engine, layout }).userOf(folder)
  const startedMs = performance.now()
  try {
    const runtime = await runtimes.runtimeFor({ ...config.config, runtime: config.runtime })
    const { result = '' } = await runtime.run(
      makeTestJob(host, layout, config, { user, logFile: join(temporary, 'log'), timeoutMs }),
    )
    return { answer: result || '(nothing)', ms: Math.round(performance.now() - startedMs) }
  } catch (error) {
    if (!(error instanceof RunFault)) throw error
    const message = config.key ? error.message.replaceAll(config.key, '…') : error.message
    // The message may quote the endpoint.
    const detail = config.isPublicOnly ? '' : `: ${message}`
    throw new Refusal('unavailable', `a run in ${folder} failed${detail}`)
  }
}

function makeTestJob(
  host: InstanceHost,
  layout: Layout,
  { folder = ROOT_FOLDER, env, config, isPublicOnly }: ModelConfig,
  { user, logFile, timeoutMs }: Pick<Job, 'user' | 'logFile'> & { readonly timeoutMs: number },
): Job {
  const jid = `web:${folder}`
  return {
    turnId: 'model-test',
    fence: 1,
    folder,
    user,
    topic: '',
    jid,
    sender: 'cli',
    prompt: TEST_PROMPT,
    messages: [{ id: 'model-test', sender: 'cli', text: TEST_PROMPT, jid }],
    sentCount: 0,
    // This run has no tools, so any file can replace the socket.
    socket: '/dev/null',
    home: groupDirs(layout, folder).home,
    openHome: async () => (await openHome(layout, folder)) ?? refuse('not_found', `${folder} has no workspace`),
    readText: () => undefined,
    logFile,
    deadline: host.clock.now() + timeoutMs,
    hangMs: timeoutMs,
    env,
    ...(isPublicOnly ? { publicOnly: new Set(MODEL_URLS) } : {}),
    config,
    signal: new AbortController().signal,
  }
}
