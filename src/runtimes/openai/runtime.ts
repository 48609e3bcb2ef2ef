// Any endpoint that speaks OpenAI's chat completions as an agent. The loop of tools runs in a process of its own, like any
// other agent.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { endpointOf as networkEndpoint } from '../../cell/network.ts'
import { mustHaveSucceeded, runProcess } from '../process.ts'
import { type Job, type Ran, RunFault, type Runtime } from '../runtime.ts'
import type { RuntimeSettings } from '../settings.ts'
import type { Setup } from '../setup.ts'
import { type Outcome, readOutcome } from '../warm-child.ts'
import type { Endpoint, Task } from './task.ts'

const AGENT = fileURLToPath(new URL(`./agent${extname(import.meta.url)}`, import.meta.url))

export async function openOpenai(setup: Setup): Promise<Runtime> {
  return { name: 'openai', run: (job) => runOpenai(setup, job), close: async () => undefined }
}

async function runOpenai(setup: Setup, job: Job): Promise<Ran> {
  const cell = await setup.cell()
  const { turnId, fence, folder, prompt, sessionId, parentSessionId, moneyCents } = job
  const { home, socket } = cell.seen(job)
  const endpoint = endpointOf(setup.settings, job)
  const turn = { id: turnId, fence }
  const task: Task = { turn, socket, home, folder, prompt, sessionId, parentSessionId, endpoint, moneyCents }
  let outcome: Outcome | undefined
  // Its key comes by its input: nothing that an agent starts could read it there.
  const exit = await runProcess(
    setup,
    { ...job, env: {} },
    {
      argv: [cell.inner(process.execPath), cell.inner(AGENT)],
      input: JSON.stringify(task),
      endpoint: networkEndpoint(endpoint.baseUrl),
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

/** Who brings an endpoint of his own brings its key too: the instance's key goes to the instance's endpoint alone. */
function endpointOf(settings: RuntimeSettings, { env, config }: Job): Endpoint {
  const own = env.OPENAI_BASE_URL
  if (own !== undefined && !URL.canParse(own)) throw new RunFault('terminal', 'OPENAI_BASE_URL is no URL')
  const baseUrl = own ?? settings.OPENAI_BASE_URL
  const apiKey = env.OPENAI_API_KEY ?? (own === undefined ? settings.OPENAI_API_KEY : undefined)
  const named = typeof config?.model === 'string' ? config.model : undefined
  const model = named ?? env.OPENAI_MODEL ?? settings.OPENAI_MODEL
  if (!model) throw new RunFault('terminal', 'no model is set: OPENAI_MODEL names one')
  if (!apiKey && !isLoopback(baseUrl)) throw new RunFault('terminal', 'OPENAI_API_KEY is not set')
  const [priceInput, priceOutput] = [settings.OPENAI_PRICE_INPUT ?? 0, settings.OPENAI_PRICE_OUTPUT ?? 0]
  return { baseUrl, model, apiKey, priceInput, priceOutput }
}

function isLoopback(url: string): boolean {
  return /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(new URL(url).hostname)
}
