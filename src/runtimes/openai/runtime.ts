// Runs an agent on any endpoint with OpenAI's chat completions API. The tool loop runs in a process in the cell.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { modelAddressOf as networkEndpoint } from '../../cell/network.ts'
import { readVision } from '../../core/groups/group-config.ts'
import type { ModelUsage } from '../../core/turns/costs.ts'
import { parseModelUsage } from '../../core/turns/turn-cost.ts'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import { requireSuccess, runAgentProgram } from '../agent-process.ts'
import { type AgentRunResult, type Job, oversizedAnswer, RunFault, type Runtime } from '../runtime.ts'
import type { RuntimeContext } from '../runtime-context.ts'
import { type AgentOutcome, readOutcome, requireResult } from '../warm-child.ts'
import { resolveOpenaiEndpoint } from './endpoint.ts'
import { BlindModels, chooseImages } from './images.ts'
import { BLIND_LINE, type OpenaiTask } from './task.ts'

const AGENT = fileURLToPath(new URL(`./agent${extname(import.meta.url)}`, import.meta.url))

export async function openRuntime(context: RuntimeContext): Promise<Runtime> {
  const blind = new BlindModels()
  return { name: 'openai', run: (job) => runOpenai(context, job, blind), close: async () => undefined }
}

async function runOpenai(context: RuntimeContext, job: Job, blind: BlindModels): Promise<AgentRunResult> {
  const endpoint = resolveOpenaiEndpoint(context.settings, job)
  const model = [job.folder, endpoint.baseUrl, endpoint.model]
  const vision = readVision(job.config) ?? context.settings.OPENAI_VISION
  const isSeeing = vision === 'true' || (vision === 'auto' && !blind.has(...model))
  const cell = await context.cell()
  const { turnId, fence, folder, prompt, sessionId, parentSessionId, moneyCents } = job
  const turn = { id: turnId, fence }
  const task: OpenaiTask = {
    turn,
    ...cell.visiblePaths(job),
    folder,
    prompt,
    images: isSeeing ? chooseImages(job.messages) : [],
    sessionId,
    parentSessionId,
    endpoint,
    moneyCents,
  }
  let outcome: AgentOutcome | undefined
  let hasLongLine = false
  // The key goes through stdin, not the environment, where programs that the agent starts could read it.
  const exit = await runAgentProgram(
    context,
    { ...job, env: {} },
    {
      argv: [cell.pathInside(process.execPath), cell.pathInside(AGENT)],
      input: JSON.stringify(task),
      endpoint: networkEndpoint(endpoint.baseUrl, !job.publicOnly?.has('OPENAI_BASE_URL')),
      isDraft,
      onLine: (line, isPiece) => {
        if (isPiece) hasLongLine = true
        else if (isDraft(line)) addToDraft(job, line)
        else if (line === BLIND_LINE) blind.add(...model)
        else outcome = readOutcome(line) ?? outcome
        const used = isPiece ? undefined : readUsage(line)
        if (used) job.onUsage?.(used)
        return undefined
      },
    },
  )
  if (!outcome) {
    requireSuccess(exit)
    if (hasLongLine) throw oversizedAnswer()
    throw new RunFault('retryable', 'it ended without a result')
  }
  return requireResult(withoutHostFault(outcome))
}

function isDraft(line: string): boolean {
  return line.startsWith('{"draft":')
}

/** Null begins the text again. */
function addToDraft({ draft }: Job, line: string): void {
  const read = tryParseJson(line)
  const text = isObject(read) ? read.draft : undefined
  if (text === null) draft?.restart()
  if (typeof text === 'string') draft?.add(text)
}

function readUsage(line: string): readonly ModelUsage[] | undefined {
  const read = line.startsWith('{"usage":') ? tryParseJson(line) : undefined
  return isObject(read) ? parseModelUsage(read.usage) : undefined
}

/** The agent can write to the output of its process, and must not be able to ask for attempts that do not count. */
function withoutHostFault({ fault, ...outcome }: AgentOutcome): AgentOutcome {
  if (!fault) return outcome
  const isClaimable = fault.kind === 'terminal' || fault.kind === 'session'
  return { ...outcome, fault: { ...fault, kind: isClaimable ? fault.kind : 'retryable' } }
}
