// Any endpoint that speaks OpenAI's chat completions as an agent. The loop of tools runs in a process of its own, like any
// other agent.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
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

async function runOpenai({ settings, cell, clock }: Setup, job: Job): Promise<Ran> {
  const { turnId, fence, folder, prompt, sessionId, parentSessionId, moneyCents } = job
  const { home, socket } = cell.seen(job)
  const endpoint = endpointOf(settings, job)
  const turn = { id: turnId, fence }
  const task: Task = { turn, socket, home, folder, prompt, sessionId, parentSessionId, endpoint, moneyCents }
  let outcome: Outcome | undefined
  // Its key comes by its input: nothing that an agent starts could read it there.
  const exit = await runProcess(
    cell,
    clock,
    { ...job, env: {} },
    {
      argv: [process.execPath, AGENT],
      input: JSON.stringify(task),
      onLine: (line) => {
        outcome = readOutcome(line) ?? outcome
      },
    },
  )
  if (!outcome) {
    mustHaveSucceeded(exit)
    throw new RunFault('again', 'it ended without a result')
  }
  const { fault, ...ran } = outcome
  if (fault) throw new RunFault(fault.kind, fault.message, ran.models)
  return ran
}
