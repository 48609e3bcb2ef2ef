// The Claude Code command line as an agent, by its documented flags. Its tools come from the folder's socket by `svc bridge`.
import type { Cell, VisiblePaths } from '../../cell/cell.ts'
import { variablesForEndpoint } from '../../core/secrets/model-variables.ts'
import { mustHaveSucceeded, type ProgramExit, runAgentProgram } from '../agent-process.ts'
import { MCP_SERVER_NAME, mcpConfigText, writeMcpConfigFile } from '../mcp-config.ts'
import { type AgentRunResult, type Job, RunFault, type Runtime } from '../runtime.ts'
import type { RuntimeContext } from '../runtime-context.ts'
import { resolveClaudeCredentials } from './credentials.ts'
import { StreamJsonReader } from './stream-json.ts'

/** Gone, or too long to go on with. */
const NO_SESSION = /no conversation found|prompt is too long|no such session|session .*(?:not found|does not exist)/i
/** What no further try changes. */
const PERMANENT_ERROR =
  /invalid (?:x-)?api[ -]key|please run \/login|credit balance is too low|oauth token (?:has expired|revoked)|authentication_(?:error|failed)|permission_error|API Error: 40[13]\b/i

export async function openRuntime(setup: RuntimeContext): Promise<Runtime> {
  return { name: 'claude', run: (job) => runClaude(setup, job), close: async () => undefined }
}

/** Where a cell shows the configuration of the bridge. */
const INNER_BRIDGE = '/run/svc/mcp.json'

/** How often a client is started that begins without its tools. On a busy machine it does so now and then. */
const STARTS_MAX = 3

class ToolsNotConnected extends RunFault {
  constructor(status: string) {
    super('again', `its tool server was not connected when it began (${status})`)
  }
}

async function runClaude(setup: RuntimeContext, given: Job): Promise<AgentRunResult> {
  for (let start = 1; ; start++) {
    try {
      return await runOnce(setup, given)
    } catch (error) {
      if (!(error instanceof ToolsNotConnected)) throw error
      setup.warn(`turn ${given.turnId}: ${error.message}; start ${start} of ${STARTS_MAX}`)
      if (start === STARTS_MAX) throw error
    }
  }
}

async function runOnce(setup: RuntimeContext, given: Job): Promise<AgentRunResult> {
  const job = { ...given, env: variablesForEndpoint(given.env, given.personal, ['ANTHROPIC_BASE_URL']) }
  const { settings } = setup
  const cell = await setup.cell()
  const bridge = await bridgeFor(cell, job)
  const stream = new StreamJsonReader()
  const credentials = resolveClaudeCredentials(settings, job)
  try {
    const exit = await runAgentProgram(setup, job, {
      argv: [settings.AGENT_CLI, ...flagsOf(job, bridge.path, cell, credentials.model)],
      input: job.prompt,
      texts: bridge.texts,
      endpoint: credentials.endpoint,
      env: {
        DISABLE_AUTOUPDATER: '1',
        ...credentials.env,
      },
      onLine: (line) => {
        stream.push(line)
        if (stream.toolServerFailure !== undefined) return new ToolsNotConnected(stream.toolServerFailure)
        return stream.keyRejection === undefined
          ? undefined
          : new RunFault('terminal', stream.keyRejection, stream.models)
      },
    })
    return ranOf(stream, exit, job)
  } finally {
    await bridge.remove()
  }
}

interface Bridge {
  readonly path: string
  readonly texts: Readonly<Record<string, string>>
  remove(): Promise<void>
}

async function bridgeFor(cell: Cell, job: Job): Promise<Bridge> {
  const env = { SVC_TURN: job.turnId, SVC_FENCE: String(job.fence) }
  const { socket } = cell.visiblePaths(job)
  if (cell.kind === 'none') return { texts: {}, ...(await writeMcpConfigFile(socket, env, cell.user)) }
  const text = mcpConfigText(socket, env, (path) => cell.pathInside(path))
  return { path: INNER_BRIDGE, texts: { [INNER_BRIDGE]: text }, remove: async () => undefined }
}

function flagsOf(job: Job, mcp: string, cell: Cell, model: string | undefined): string[] {
  const isSealed = cell.kind === 'bwrap'
  const { sessionId, parentSessionId, moneyCents, config } = job
  const flags = ['--print', '--output-format', 'stream-json', '--verbose', '--mcp-config', mcp, '--strict-mcp-config']
  // In a cell there is nothing to protect from it; outside it may write in its workspace, and use the tools of its socket.
  flags.push('--permission-mode', wordOf(config?.permission_mode) ?? (isSealed ? 'bypassPermissions' : 'acceptEdits'))
  flags.push('--allowedTools', `mcp__${MCP_SERVER_NAME}`)
  if (sessionId !== undefined) flags.push('--resume', sessionId)
  else if (parentSessionId !== undefined) flags.push('--resume', parentSessionId, '--fork-session')
  const named = wordOf(config?.model) ?? model
  if (named !== undefined) flags.push('--model', named)
  if (moneyCents !== undefined) flags.push('--max-budget-usd', (Math.max(1, moneyCents) / 100).toFixed(2))
  const guide = [...(isSealed ? [] : [placesGuide(job, cell.visiblePaths(job))]), ...(job.chat ? [VISITOR_GUIDE] : [])]
  if (guide.length > 0) flags.push('--append-system-prompt', guide.join(' '))
  return flags
}

const VISITOR_GUIDE =
  'Visitors write in this chat. Of /home/node you can only read a part: write below /home/chat, which is kept for this chat alone. Files are sent from there, or from /home/node/public.'

function placesGuide({ chat }: Job, { workspace, home }: VisiblePaths): string {
  const ofChat = chat ? `, and /home/chat is ${home}` : ''
  return `What messages and tools call /home/node is the working directory, ${workspace}${ofChat}.`
}

function wordOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && !value.startsWith('-') ? value : undefined
}

function ranOf(stream: StreamJsonReader, exit: ProgramExit, { sessionId, parentSessionId }: Job): AgentRunResult {
  const { models } = stream
  const said = stream.isError ? stream.text : exit.lastError
  const isResumed = sessionId !== undefined || parentSessionId !== undefined
  if (isResumed && (stream.isError || exit.code !== 0) && NO_SESSION.test(`${said}\n${exit.lastError}`))
    throw new RunFault('session', 'its session cannot be gone on with', models)
  if (stream.isOverBudget) throw new RunFault('terminal', 'it has used up the money that it had', models, 'overBudget')
  if (stream.isError) throw new RunFault(PERMANENT_ERROR.test(said) ? 'terminal' : 'again', said, models)
  if (!stream.isDone) {
    mustHaveSucceeded(exit)
    throw new RunFault('again', 'it ended without a result')
  }
  return { result: stream.text, sessionId: stream.sessionId, models }
}
