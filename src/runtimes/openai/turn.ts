// One turn of the runtime openai, in its own process: asks the model, does what it asks for by the folder's socket, and asks
// again until it has an answer.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Used, wholeCents } from '../cost.ts'
import { RunFault } from '../runtime.ts'
import { RpcFault, SocketClient, SocketFault, type ToolShown } from '../socket-client.ts'
import type { Outcome } from '../warm-child.ts'
import { complete, type Message, type ToolCall } from './completion.ts'
import type { Task } from './task.ts'
import { keepSession, openSession } from './transcript.ts'

/** Rounds of tools in one turn. */
const ROUNDS_MAX = 24
const RESULT_MAX = 100_000
const SIGN_MS = 5000
/** What a workspace tells its agent about itself. */
const GUIDES = ['SYSTEM.md', 'PERSONA.md', 'CLAUDE.md']
const GUIDE_MAX = 32_768

export async function runTask(task: Task): Promise<Outcome> {
  let socket: SocketClient | undefined
  const spending = new Spending(task)
  try {
    socket = await SocketClient.open(task.socket, task.turn)
    return { ...(await converse(socket, task, spending)), models: spending.models }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const kind = error instanceof RunFault ? error.kind : error instanceof SocketFault ? 'unavailable' : 'again'
    const failure = error instanceof RunFault ? { failure: error.failure } : {}
    return { fault: { kind, message, ...failure }, models: spending.models }
  } finally {
    socket?.close()
  }
}

async function converse(socket: SocketClient, task: Task, spending: Spending): Promise<Outcome> {
  const session = await openSession(task)
  const tools = toolsOf(await socket.tools())
  const system: Message = { role: 'system', content: await guideOf(task) }
  const messages: Message[] = [...session.messages, { role: 'user', content: task.prompt }]
  for (let round = 1; ; round++) {
    const isLast = round >= ROUNDS_MAX
    const question = { messages: [system, ...messages], tools: [...tools.shown], isLast }
    const { text, calls, input, output } = await complete(task.endpoint, question, signOfLife).catch((error) =>
      forGood(error, session.messages.length === 0),
    )
    spending.add(input, output)
    if (calls.length === 0 || isLast) {
      messages.push({ role: 'assistant', content: text })
      await keepSession(task.home, { id: session.id, messages })
      return { result: text, sessionId: session.id }
    }
    messages.push({ role: 'assistant', content: text === '' ? null : text, tool_calls: calls })
    for (const call of calls)
      messages.push({ role: 'tool', tool_call_id: call.id, content: await useTool(socket, tools.names, call) })
    spending.mustHaveMore()
  }
}

/** A session that is too long though it is fresh does not become shorter by starting again. */
function forGood(error: unknown, isFresh: boolean): never {
  if (isFresh && error instanceof RunFault && error.kind === 'session')
    throw new RunFault('terminal', 'what it was told is too long for the model', [], 'tooLong')
  throw error
}

/** What a tool refuses is told to the model, which may know another way. */
async function useTool(socket: SocketClient, names: ReadonlyMap<string, string>, call: ToolCall): Promise<string> {
  const { name, arguments: json } = call.function
  process.stderr.write(`tool ${name}\n`)
  let args: unknown
  try {
    args = JSON.parse(json)
  } catch {
    return 'error: the arguments are not JSON'
  }
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return 'error: the arguments are no JSON object'
  try {
    const { text, isError } = await socket.call(names.get(name) ?? name, { ...args })
    return `${isError ? 'error: ' : ''}${text}`.slice(0, RESULT_MAX)
  } catch (error) {
    if (error instanceof RpcFault) return `error: ${error.message}`
    throw error
  }
}

/** Endpoints take no dot in the name of a function. */
function toolsOf(tools: readonly ToolShown[]): { shown: readonly object[]; names: ReadonlyMap<string, string> } {
  const names = new Map(tools.map(({ name }) => [name.replace(/[^A-Za-z0-9_-]/g, '__').slice(0, 64), name]))
  const shown = [...names].map(([shownAs, name]) => {
    const { description = '', inputSchema = { type: 'object', properties: {} } } =
      tools.find((tool) => tool.name === name) ?? {}
    return { type: 'function', function: { name: shownAs, description, parameters: inputSchema } }
  })
  return { shown, names }
}

async function guideOf({ workspace, folder }: Task): Promise<string> {
  const guides = [
    `You are the agent of the folder ${folder}. What you answer is said in the chat, unless you have said something there yourself by a tool.`,
  ]
  for (const name of GUIDES) {
    const text = await readFile(join(workspace, name), 'utf8').catch(() => '')
    if (text.trim() !== '') guides.push(text.slice(0, GUIDE_MAX))
  }
  return guides.join('\n\n')
}

let lastSign = 0

/** Whoever watches sees only what is printed. */
function signOfLife(): void {
  const now = performance.now()
  if (now - lastSign < SIGN_MS) return
  lastSign = now
  process.stderr.write('the model answers\n')
}

class Spending {
  readonly #task: Task
  #used: Used

  constructor(task: Task) {
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

  get models(): Outcome['models'] {
    return this.#used.input + this.#used.output > 0 ? wholeCents([this.#used]) : []
  }

  /** Between two rounds: a round that has begun cannot be taken back. */
  mustHaveMore(): void {
    const { moneyCents } = this.#task
    if (moneyCents !== undefined && this.#used.cents >= moneyCents && this.#used.cents > 0)
      throw new RunFault('terminal', 'it has used up the money that it had', [], 'overBudget')
  }
}
