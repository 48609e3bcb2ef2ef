// Runs the Claude Code command line as an agent, with documented flags only. `svc bridge` gives it the tools of its socket.
import type { Cell, VisiblePaths } from '../../cell/cell.ts'
import { variablesForEndpoint } from '../../core/secrets/model-variables.ts'
import { type ProgramExit, requireSuccess, runAgentProgram } from '../agent-process.ts'
import { buildMcpConfig, MCP_SERVER_NAME, writeMcpConfigFile } from '../mcp-config.ts'
import { findListedPrice } from '../model-prices.ts'
import { type AgentRunResult, ANSWER_MAX, type Job, oversizedAnswer, RunFault, type Runtime } from '../runtime.ts'
import type { RuntimeContext } from '../runtime-context.ts'
import { resolveClaudeCredentials } from './credentials.ts'
import { StreamJsonReader } from './stream-json.ts'

/** The session does not exist or is too long to resume. */
const SESSION_ERROR = /no conversation found|prompt is too long|no such session/i
/** Errors that a retry cannot fix. */
const PERMANENT_ERROR =
  /invalid (?:x-)?api[ -]key|please run \/login|credit balance is too low|oauth token (?:has expired|revoked)|authentication_(?:error|failed)|permission_error|API Error: 40[13]\b/i

export async function openRuntime(context: RuntimeContext): Promise<Runtime> {
  return { name: 'claude', run: (job) => runClaude(context, job), close: async () => undefined }
}

/** Path of the MCP configuration in a cell. */
const CELL_CONFIG_PATH = '/run/svc/mcp.json'

/** On a busy machine the client sometimes starts before its tool server is connected; then it is started again. */
const STARTS_MAX = 3

class ToolsNotConnected extends RunFault {
  constructor(status: string) {
    super('retryable', `the client started before its tool server was connected (${status})`)
  }
}

async function runClaude(context: RuntimeContext, given: Job): Promise<AgentRunResult> {
  for (let start = 1; ; start++) {
    try {
      return await runOnce(context, given)
    } catch (error) {
      if (!(error instanceof ToolsNotConnected)) throw error
      context.warn(`turn ${given.turnId}: ${error.message}; start ${start} of ${STARTS_MAX}`)
      if (start === STARTS_MAX) throw error
    }
  }
}

async function runOnce(context: RuntimeContext, given: Job): Promise<AgentRunResult> {
  const job = { ...given, env: variablesForEndpoint(given.env, given.personal, ['ANTHROPIC_BASE_URL']) }
  const { settings } = context
  const cell = await context.cell()
  const bridge = await prepareBridge(cell, job)
  const priceOf = (model: string) => findListedPrice(model, settings.MODEL_PRICES)?.price
  const stream = new StreamJsonReader(priceOf, job.draft, job.calls)
  const credentials = resolveClaudeCredentials(settings, job)
  try {
    const exit = await runAgentProgram(context, job, {
      argv: [settings.AGENT_CLI, ...buildFlags(job, bridge.path, cell, credentials.model)],
      input: job.prompt,
      texts: bridge.texts,
      endpoint: credentials.endpoint,
      env: { DISABLE_AUTOUPDATER: '1', ...credentials.env },
      isDraft: (line) => line.startsWith('{"type":"stream_event"'),
      onLine: (line, isPiece) => {
        if (isPiece) stream.skip()
        else if (stream.push(line)) job.onUsage?.(stream.used)
        if (stream.toolServerFailure !== undefined) return new ToolsNotConnected(stream.toolServerFailure)
        return stream.keyRejection === undefined ? undefined : new RunFault('terminal', stream.keyRejection)
      },
    })
    return toRunResult(stream, exit, job)
  } finally {
    await bridge.remove()
  }
}

interface BridgeConfig {
  readonly path: string
  readonly texts: Readonly<Record<string, string>>
  remove(): Promise<void>
}

async function prepareBridge(cell: Cell, job: Job): Promise<BridgeConfig> {
  const env = { SVC_TURN: job.turnId, SVC_FENCE: String(job.fence) }
  const { socket } = cell.visiblePaths(job)
  if (cell.kind === 'none') return { texts: {}, ...(await writeMcpConfigFile(socket, env, job.user ?? cell.user)) }
  const text = buildMcpConfig(socket, env, (path) => cell.pathInside(path))
  return { path: CELL_CONFIG_PATH, texts: { [CELL_CONFIG_PATH]: text }, remove: async () => undefined }
}

function buildFlags(job: Job, mcp: string, cell: Cell, model: string | undefined): string[] {
  const isSealed = cell.kind !== 'none'
  const { sessionId, parentSessionId, moneyCents, config } = job
  const flags = [
    '--print',
    '--output-format',
    'stream-json',
    '--include-partial-messages',
    '--verbose',
    '--mcp-config',
    mcp,
    '--strict-mcp-config',
  ]
  // The cell confines the client; without one, it may only edit its workspace and call the tools of its socket.
  flags.push(
    '--permission-mode',
    readFlagValue(config?.permission_mode) ?? (isSealed ? 'bypassPermissions' : 'acceptEdits'),
  )
  flags.push('--allowedTools', [`mcp__${MCP_SERVER_NAME}`, ...readableFiles(job)].join(','))
  if (sessionId !== undefined) flags.push('--resume', sessionId)
  else if (parentSessionId !== undefined) flags.push('--resume', parentSessionId, '--fork-session')
  const named = readFlagValue(config?.model) ?? model
  if (named !== undefined) flags.push('--model', named)
  if (moneyCents !== undefined) flags.push('--max-budget-usd', (Math.max(1, moneyCents) / 100).toFixed(2))
  const guide = [
    ...(isSealed ? [] : [describePaths(job, cell.visiblePaths(job))]),
    ...(job.chat?.isVisitor ? [VISITOR_GUIDE] : []),
  ]
  if (guide.length > 0) flags.push('--append-system-prompt', guide.join(' '))
  return flags
}

/** Outside of the working directory, and not to be edited. A path from the root begins with two slashes. */
function readableFiles({ files }: Job): string[] {
  return files ? [`Read(/${files.visiblePath}/**)`] : []
}

const VISITOR_GUIDE =
  'Visitors write in this chat. You can read only a part of /home/node; write below /home/chat, which belongs to this chat alone. You can send files from there and from /home/node/public.'

function describePaths({ chat }: Job, { workspace, home }: VisiblePaths): string {
  const chatHome = chat ? `, and /home/chat is ${home}` : ''
  return `In messages and tools, /home/node is the working directory, ${workspace}${chatHome}.`
}

function readFlagValue(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && !value.startsWith('-') ? value : undefined
}

/** The client may print an error of any length, so each line is searched once. */
export function isSessionError(error: string): boolean {
  const isMissing = (line: string): boolean => /not found|does not exist/i.test(/session (.*)/i.exec(line)?.[1] ?? '')
  return SESSION_ERROR.test(error) || error.split('\n').some(isMissing)
}

function toRunResult(stream: StreamJsonReader, exit: ProgramExit, { sessionId, parentSessionId }: Job): AgentRunResult {
  const error = stream.isError ? stream.text : exit.lastError
  const isResumed = sessionId !== undefined || parentSessionId !== undefined
  if (isResumed && (stream.isError || exit.code !== 0) && isSessionError(`${error}\n${exit.lastError}`))
    throw new RunFault('session', 'its session cannot be resumed')
  if (stream.isOverBudget) throw new RunFault('terminal', 'it has used up its budget', 'overBudget')
  if (stream.isError) throw new RunFault(PERMANENT_ERROR.test(error) ? 'terminal' : 'retryable', error)
  if (!stream.isDone) {
    requireSuccess(exit)
    if (stream.hasLongLine) throw oversizedAnswer()
    throw new RunFault('retryable', 'it ended without a result')
  }
  if (stream.text.length > ANSWER_MAX) throw oversizedAnswer()
  return { result: stream.text, sessionId: stream.sessionId }
}
