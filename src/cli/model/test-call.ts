// One real call with a configuration of a model: by the endpoint's own protocol, or by a run of the program in a cell.
import { join } from 'node:path'
import { openHome } from '../../core/groups/workspace-home.ts'
import { groupDirs, type Layout } from '../../core/layout.ts'
import { RunNetworks } from '../../daemons/agents/run-network.ts'
import { makeProcessDirectory, removeProcessDirectory } from '../../lib/files/process-directory.ts'
import { openLog } from '../../lib/log/log.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { openRuntimes } from '../../runtimes/index.ts'
import { type Job, RunFault } from '../../runtimes/runtime.ts'
import { callModel, type ModelTestResult } from './model-api.ts'
import type { ModelConfig } from './model-config.ts'
import { findModelFaults } from './model-faults.ts'

/** Where runs of the instance as a whole are tried. */
const ROOT_FOLDER = 'main'
const RUN_MS = 120_000
const ANSWER_MAX = 200

export async function testModel(host: InstanceHost, layout: Layout, config: ModelConfig): Promise<ModelTestResult> {
  const { folder = ROOT_FOLDER, runtime } = config
  const [fault] = findModelFaults(config, groupDirs(layout, folder).home)
  if (fault !== undefined) refuse('invalid', fault)
  if (runtime === 'demo') return { answer: '(the built-in demo needs no model)', ms: 0 }
  const { answer, ms } =
    runtime === 'openai'
      ? await callModel({ baseUrl: config.endpoint ?? '', key: config.key }, config.model ?? '')
      : await runAgentProgram(host, layout, config)
  return { answer: shorten(answer), ms }
}

function shorten(answer: string): string {
  const line = answer.replace(/\s+/g, ' ').trim()
  return line.length > ANSWER_MAX ? `${line.slice(0, ANSWER_MAX)}…` : line
}

/** As a turn would, in a cell and with the folder's network rules, but without tools. */
async function runAgentProgram(host: InstanceHost, layout: Layout, config: ModelConfig): Promise<ModelTestResult> {
  const { folder = ROOT_FOLDER, settings } = config
  await using open = new AsyncDisposableStack()
  const temporary = makeProcessDirectory('svc-model-', 0o700)
  open.defer(() => removeProcessDirectory(temporary))
  const log = await openLog({ level: 'error' })
  const network = new RunNetworks({ host, log, denyPrivate: settings.NETWORK_DENY_PRIVATE })
  open.defer(() => network.close())
  const { groups, chats } = layout
  const runtimes = await openRuntimes({ settings, clock: host.clock, groups, chats, network, warn: () => undefined })
  open.defer(() => runtimes.close())
  const began = performance.now()
  try {
    const runtime = await runtimes.runtimeFor({ ...config.config, runtime: config.runtime })
    const { result = '' } = await runtime.run(makeTestJob(host, layout, config, join(temporary, 'log')))
    return { answer: result || '(nothing)', ms: Math.round(performance.now() - began) }
  } catch (error) {
    if (!(error instanceof RunFault)) throw error
    const message = config.key ? error.message.replaceAll(config.key, '…') : error.message
    throw new Refusal('unavailable', `a run in ${folder} failed: ${message}`)
  }
}

function makeTestJob(
  host: InstanceHost,
  layout: Layout,
  { folder = ROOT_FOLDER, env, config }: ModelConfig,
  logFile: string,
): Job {
  const prompt = 'Say hello in one short sentence.'
  const jid = `web:${folder}`
  return {
    turnId: 'model-test',
    fence: 1,
    folder,
    topic: '',
    jid,
    sender: 'cli',
    prompt,
    messages: [{ id: 'model-test', sender: 'cli', text: prompt, jid }],
    sentCount: 0,
    // Any file will do in the place of the socket: this run has no tools.
    socket: '/dev/null',
    home: groupDirs(layout, folder).home,
    openHome: async () => (await openHome(layout, folder)) ?? refuse('not_found', `${folder} has no workspace`),
    readText: () => undefined,
    logFile,
    deadline: host.clock.now() + RUN_MS,
    hangMs: RUN_MS,
    env,
    config,
    signal: new AbortController().signal,
  }
}
