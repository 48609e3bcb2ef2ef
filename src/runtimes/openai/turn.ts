// One turn of the runtime openai, in its own process: asks the model, does what it asks for by the folder's socket, and asks
// again until it has an answer.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type ModelUsage, toWholeCents } from '../cost.ts'
import { RunFault } from '../runtime.ts'
import { type ListedTool, RpcFault, SocketClient, SocketFault } from '../socket-client.ts'
import type { AgentOutcome } from '../warm-child.ts'
import {
  BadRequestFault,
  type Completion,
  type CompletionMessage,
  type CompletionRequest,
  type ModelToolCall,
  requestCompletion,
} from './completion.ts'
import type { OpenaiTask } from './task.ts'
import { openSession, saveSession } from './transcript.ts'

/** Rounds of tools in one turn. */
const ROUNDS_MAX = 24
const RESULT_MAX = 100_000
const SIGN_MS = 5000
/** What a workspace tells its agent about itself. */
const GUIDES = ['SYSTEM.md', 'PERSONA.md', 'CLAUDE.md']
const GUIDE_MAX = 32_768
/** What people are told of an answer that is not whole. */
const ENDINGS = {
  cut: '(The answer stops here: it reached the length limit of the model.)',
  withheld: '(The provider of the model withheld the rest of the answer.)',
} as const

export async function runOpenaiTask(task: OpenaiTask): Promise<AgentOutcome> {
  let socket: SocketClient | undefined
  const spending = new CostMeter(task)
  try {
    socket = await SocketClient.open(task.socket, task.turn)
    return { ...(await runToolLoop(socket, task, spending)), models: spending.models }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const kind = error instanceof RunFault ? error.kind : error instanceof SocketFault ? 'unavailable' : 'again'
    const failure = error instanceof RunFault ? { failure: error.failure } : {}
    return { fault: { kind, message, ...failure }, models: spending.models }
  } finally {
    socket?.close()
  }
}

async function runToolLoop(socket: SocketClient, task: OpenaiTask, spending: CostMeter): Promise<AgentOutcome> {
  const session = await openSession(task)
  const tools = toolsOf(await socket.tools())
  const system: CompletionMessage = { role: 'system', content: await guideOf(task) }
  const prompt: CompletionMessage = { role: 'user', content: task.prompt }
  const messages: CompletionMessage[] = [...session.messages, prompt]
  const printHeartbeat = createHeartbeat()
  const ask = async (question: CompletionRequest): Promise<Completion> => {
    const completion = await requestCompletion(task.endpoint, question, printHeartbeat)
    spending.add(completion.input, completion.output)
    return completion
  }
  const fresh: CompletionRequest = { messages: [system, prompt], tools: tools.shown, isLast: false }
  for (let round = 1; ; round++) {
    const isLast = round >= ROUNDS_MAX
    const question: CompletionRequest = { messages: [system, ...messages], tools: tools.shown, isLast }
    const { text, calls, end } = await ask(question).catch((error) =>
      session.messages.length === 0 ? failFresh(error) : failOld(error, () => ask(fresh)),
    )
    if (calls.length === 0 || isLast) {
      messages.push({ role: 'assistant', content: text })
      await saveSession(task.home, { id: session.id, messages })
      return { result: end === 'whole' ? text : `${text}\n\n${ENDINGS[end]}`.trim(), sessionId: session.id }
    }
    messages.push({ role: 'assistant', content: text === '' ? null : text, tool_calls: calls.map(withObject) })
    for (const [at, call] of calls.entries()) {
      const isCut = end === 'cut' && at === calls.length - 1
      const content = isCut
        ? 'error: the call was cut off at the length limit of the model'
        : await useTool(socket, tools.names, call)
      messages.push({ role: 'tool', tool_call_id: call.id, content })
    }
    spending.mustBeWithinBudget()
  }
}

/** A session that is too long though it is fresh does not become shorter by starting again. */
function failFresh(error: unknown): never {
  if (error instanceof RunFault && error.kind === 'session')
    throw new RunFault('terminal', 'what it was told is too long for the model', [], 'tooLong')
  throw error
}

/**
 * A session may hold what the endpoint does not take, or be too long in words that are not known here. It is given up only
 * if the endpoint answers without it: otherwise a mistake in the settings would end every session.
 */
async function failOld(error: unknown, askFresh: () => Promise<Completion>): Promise<never> {
  if (!(error instanceof BadRequestFault)) throw error
  try {
    await askFresh()
  } catch (second) {
    if (second instanceof RunFault && second.kind === 'again') throw second
    throw error
  }
  throw new RunFault('session', `its session fails, and a new one does not: ${error.message}`)
}

/** Endpoints refuse every later question of a session whose calls have arguments that are not a JSON object. */
function withObject(call: ModelToolCall): ModelToolCall {
  return argumentsOf(call) ? call : { ...call, function: { ...call.function, arguments: '{}' } }
}

function argumentsOf({ function: { arguments: json } }: ModelToolCall): Record<string, unknown> | undefined {
  try {
    const args: unknown = JSON.parse(json)
    return typeof args === 'object' && args !== null && !Array.isArray(args) ? { ...args } : undefined
  } catch {
    return undefined
  }
}

/** What a tool refuses is told to the model, which may know another way. */
async function useTool(socket: SocketClient, names: ReadonlyMap<string, string>, call: ModelToolCall): Promise<string> {
  const { name } = call.function
  process.stderr.write(`tool ${name}\n`)
  const args = argumentsOf(call)
  if (!args) return 'error: the arguments are not a JSON object'
  try {
    const { text, isError } = await socket.call(names.get(name) ?? name, args)
    return `${isError ? 'error: ' : ''}${text}`.slice(0, RESULT_MAX)
  } catch (error) {
    if (error instanceof RpcFault) return `error: ${error.message}`
    throw error
  }
}

/** Endpoints take no dot in the name of a function. */
function toolsOf(tools: readonly ListedTool[]): { shown: readonly object[]; names: ReadonlyMap<string, string> } {
  const names = new Map(tools.map(({ name }) => [name.replace(/[^A-Za-z0-9_-]/g, '__').slice(0, 64), name]))
  const shown = [...names].map(([shownAs, name]) => {
    const { description = '', inputSchema = { type: 'object', properties: {} } } =
      tools.find((tool) => tool.name === name) ?? {}
    return { type: 'function', function: { name: shownAs, description, parameters: inputSchema } }
  })
  return { shown, names }
}

async function guideOf({ workspace, folder }: OpenaiTask): Promise<string> {
  const guides = [
    `You are the agent of the folder ${folder}. What you answer is said in the chat, unless you have said something there yourself by a tool.`,
  ]
  for (const name of GUIDES) {
    const text = await readFile(join(workspace, name), 'utf8').catch(() => '')
    if (text.trim() !== '') guides.push(text.slice(0, GUIDE_MAX))
  }
  return guides.join('\n\n')
}

/** Prints at most once per interval: runed sees only what a run prints, and ends a silent one. */
function createHeartbeat(): () => void {
  let lastMs = 0
  return () => {
    const now = performance.now()
    if (now - lastMs < SIGN_MS) return
    lastMs = now
    process.stderr.write('the model answers\n')
  }
}

class CostMeter {
  readonly #task: OpenaiTask
  #used: ModelUsage

  constructor(task: OpenaiTask) {
    this.#task = task
    this.#used = { model: task.endpoint.model, input: 0, output: 0, cents: 0 }
  }

  add(input: number, output: number): void {
    const { priceInput, priceOutput } = this.#task.endpoint
    const cents = (input * priceInput + output * priceOutput) / 1_000_000
    const { model, ...before } = this.#used
    this.#used = {
      model,
      input: before.input + input,
      output: before.output + output,
      cents: before.cents + cents,
    }
  }

  get models(): AgentOutcome['models'] {
    return this.#used.input + this.#used.output > 0 ? toWholeCents([this.#used]) : []
  }

  /** Between two rounds: a round that has begun cannot be taken back. */
  mustBeWithinBudget(): void {
    const { moneyCents } = this.#task
    if (moneyCents !== undefined && this.#used.cents >= moneyCents && this.#used.cents > 0)
      throw new RunFault('terminal', 'it has used up the money that it had', [], 'overBudget')
  }
}
