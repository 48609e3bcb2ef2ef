// Any endpoint that speaks OpenAI's chat completions as an agent. The loop of tools runs in a process of its own, like any
// other agent.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { endpointOf as networkEndpoint } from '../../cell/network.ts'
import { knownFailure } from '../../core/failures.ts'
import { mustHaveSucceeded, runProcess } from '../process.ts'
import { type Job, type Ran, RunFault, type Runtime } from '../runtime.ts'
import type { Setup } from '../setup.ts'
import { type Outcome, readOutcome } from '../warm-child.ts'
import { endpointOf } from './endpoint.ts'
import type { Task } from './task.ts'

const AGENT = fileURLToPath(new URL(`./agent${extname(import.meta.url)}`, import.meta.url))

export async function openOpenai(setup: Setup): Promise<Runtime> {
  return { name: 'openai', run: (job) => runOpenai(setup, job), close: async () => undefined }
}

async function runOpenai(setup: Setup, job: Job): Promise<Ran> {
  const endpoint = endpointOf(setup.settings, job)
  const cell = await setup.cell()
  const { turnId, fence, folder, prompt, sessionId, parentSessionId, moneyCents } = job
  const turn = { id: turnId, fence }
  const task: Task = { turn, ...cell.seen(job), folder, prompt, sessionId, parentSessionId, endpoint, moneyCents }
  let outcome: Outcome | undefined
  // Its key comes by its input: nothing that an agent starts could read it there.
  const exit = await runProcess(
    setup,
    { ...job, env: {} },
    {
      argv: [cell.inner(process.execPath), cell.inner(AGENT)],
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
  if (fault) throw new RunFault(fault.kind, fault.message, ran.models, knownFailure(fault.failure))
  return ran
}
