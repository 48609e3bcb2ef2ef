// Any endpoint that speaks OpenAI's chat completions as an agent. The loop of tools runs in a process of its own, like any
// other agent.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { modelAddressOf as networkEndpoint } from '../../cell/network.ts'
import { parseFailure } from '../../core/turns/turn-failures.ts'
import { mustHaveSucceeded, runAgentProgram } from '../agent-process.ts'
import { type AgentRunResult, type Job, RunFault, type Runtime } from '../runtime.ts'
import type { RuntimeContext } from '../runtime-context.ts'
import { type AgentOutcome, readOutcome } from '../warm-child.ts'
import { resolveOpenaiEndpoint } from './endpoint.ts'
import type { OpenaiTask } from './task.ts'

const AGENT = fileURLToPath(new URL(`./agent${extname(import.meta.url)}`, import.meta.url))

export async function openRuntime(setup: RuntimeContext): Promise<Runtime> {
  return { name: 'openai', run: (job) => runOpenai(setup, job), close: async () => undefined }
}

async function runOpenai(setup: RuntimeContext, job: Job): Promise<AgentRunResult> {
  const endpoint = resolveOpenaiEndpoint(setup.settings, job)
  const cell = await setup.cell()
  const { turnId, fence, folder, prompt, sessionId, parentSessionId, moneyCents } = job
  const turn = { id: turnId, fence }
  const task: OpenaiTask = {
    turn,
    ...cell.visiblePaths(job),
    folder,
    prompt,
    sessionId,
    parentSessionId,
    endpoint,
    moneyCents,
  }
  let outcome: AgentOutcome | undefined
  // Its key comes by its input: nothing that an agent starts could read it there.
  const exit = await runAgentProgram(
    setup,
    { ...job, env: {} },
    {
      argv: [cell.pathInside(process.execPath), cell.pathInside(AGENT)],
      input: JSON.stringify(task),
      endpoint: networkEndpoint(endpoint.baseUrl, !job.personal?.has('OPENAI_BASE_URL')),
      onLine: (line) => {
        outcome = readOutcome(line) ?? outcome
        return undefined
      },
    },
  )
  if (!outcome) {
    mustHaveSucceeded(exit)
    throw new RunFault('again', 'it ended without a result')
  }
  const { fault, ...ran } = outcome
  if (fault) throw new RunFault(fault.kind, fault.message, ran.models, parseFailure(fault.failure))
  return ran
}
