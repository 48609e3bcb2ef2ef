// Runs one turn of the runtime openai, in its own process: calls the model and then the tools that it requests, until the
// model answers with text.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ModelUsage } from '../../core/turns/costs.ts'
import { RunFault } from '../runtime.ts'
import { type ListedTool, RpcFault, SocketClient, SocketFault } from '../socket-client.ts'
import type { AgentOutcome } from '../warm-child.ts'
import { BadRequestFault, type CompletionMessage, type CompletionRequest, requestCompletion } from './completion.ts'
import type { Completion, ModelToolCall } from './completion-assembler.ts'
import { readImages, TOKENS_PER_IMAGE } from './images.ts'
import { BLIND_LINE, type OpenaiTask } from './task.ts'
import { openSession, saveSession } from './transcript.ts'

/** Model requests in one turn. */
const ROUNDS_MAX = 24
const RESULT_MAX = 100_000
const HEARTBEAT_MS = 5000
/** Files of the workspace that are part of the system prompt. */
const GUIDES = ['SYSTEM.md', 'PERSONA.md', 'CLAUDE.md']
const GUIDE_MAX = 32_768
/** Appended to an incomplete answer. */
const INCOMPLETE_NOTES = {
  truncated: '(The answer stops here: it reached the length limit of the model.)',
  filtered: '(The provider of the model withheld the rest of the answer.)',
} as const

export async function runOpenaiTask(task: OpenaiTask): Promise<AgentOutcome> {
  let socket: SocketClient | undefined
  const costs = new CostMeter(task)
  try {
    socket = await SocketClient.open(task.socket, task.turn)
    return await runToolLoop(socket, task, costs)
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const kind = error instanceof RunFault ? error.kind : error instanceof SocketFault ? 'unavailable' : 'retryable'
    const failure = error instanceof RunFault ? { failure: error.failure } : {}
    return { fault: { kind, message, ...failure } }
  } finally {
    socket?.close()
  }
}

async function runToolLoop(socket: SocketClient, task: OpenaiTask, costs: CostMeter): Promise<AgentOutcome> {
  const session = await openSession(task)
  const tools = toFunctions(await socket.tools())
  const system: CompletionMessage = { role: 'system', content: await buildSystemPrompt(task) }
  const prompt: CompletionMessage = { role: 'user', content: task.prompt }
  const messages: CompletionMessage[] = [...session.messages, prompt]
  const printHeartbeat = createHeartbeat()
  const complete = async (request: CompletionRequest): Promise<Completion> => {
    costs.start(request)
    try {
      const completion = await requestCompletion(task.endpoint, request, {
        onActivity: (length) => {
          costs.receive(length)
          if (printHeartbeat()) costs.print()
        },
        onText: (text) => void process.stdout.write(`${JSON.stringify({ draft: text })}\n`),
      })
      costs.receive(completion.text.length)
      costs.finish(completion)
      return completion
    } catch (error) {
      costs.fail()
      throw error
    }
  }
  let images = await readImages(task.images)
  const withImages = (message: CompletionMessage): CompletionMessage =>
    message === prompt && images.length > 0
      ? { role: 'user', content: [{ type: 'text', text: task.prompt }, ...images] }
      : message
  /** Repeats a request that the endpoint rejects without the images, which may be the reason. */
  const completeSeeing = async (request: CompletionRequest): Promise<Completion> => {
    try {
      return await complete({ ...request, messages: request.messages.map(withImages) })
    } catch (error) {
      if (images.length === 0 || !isRejected(error)) throw error
      images = []
      const completion = await complete(request)
      process.stderr.write(`the model gets no images in this turn: ${error.message}\n`)
      if (error instanceof BadRequestFault && error.isBlind) process.stdout.write(`${BLIND_LINE}\n`)
      return completion
    }
  }
  const fresh: CompletionRequest = { messages: [system, prompt], tools: tools.shown, isLast: false }
  for (let round = 1; ; round++) {
    const isLast = round >= ROUNDS_MAX
    const request: CompletionRequest = { messages: [system, ...messages], tools: tools.shown, isLast }
    const { text, calls, end } = await completeSeeing(request).catch((error) =>
      session.messages.length === 0
        ? rethrowInNewSession(error)
        : rethrowInOldSession(error, () => completeSeeing(fresh)),
    )
    if (calls.length === 0 || isLast) {
      messages.push({ role: 'assistant', content: text })
      await saveSession(task.home, { id: session.id, messages })
      return { result: end === 'complete' ? text : `${text}\n\n${INCOMPLETE_NOTES[end]}`.trim(), sessionId: session.id }
    }
    messages.push({ role: 'assistant', content: text === '' ? null : text, tool_calls: calls.map(withValidArguments) })
    for (const [at, call] of calls.entries()) {
      const isCut = end === 'truncated' && at === calls.length - 1
      const content = isCut
        ? 'error: the call was cut off at the length limit of the model'
        : await useTool(socket, tools.names, call)
      messages.push({ role: 'tool', tool_call_id: call.id, content })
    }
    costs.requireBudget()
  }
}

function isRejected(error: unknown): error is RunFault {
  return error instanceof BadRequestFault || (error instanceof RunFault && error.kind === 'session')
}

/** A new session that is too long cannot be made shorter by another new session. */
function rethrowInNewSession(error: unknown): never {
  if (error instanceof RunFault && error.kind === 'session')
    throw new RunFault('terminal', 'the prompt is too long for the model', 'tooLong')
  throw error
}

/**
 * A session may contain messages that the endpoint rejects, or be too long with an unknown error text. It is abandoned only
 * if a request without it succeeds: otherwise a mistake in the settings would end every session.
 */
async function rethrowInOldSession(error: unknown, completeFresh: () => Promise<Completion>): Promise<never> {
  if (!(error instanceof BadRequestFault)) throw error
  try {
    await completeFresh()
  } catch (second) {
    if (second instanceof RunFault && second.kind === 'retryable') throw second
    throw error
  }
  throw new RunFault('session', `its session fails but a new one does not: ${error.message}`)
}

/** Endpoints reject every later request of a session that contains a call whose arguments are not a JSON object. */
function withValidArguments(call: ModelToolCall): ModelToolCall {
  return parseArguments(call) ? call : { ...call, function: { ...call.function, arguments: '{}' } }
}

function parseArguments({ function: { arguments: json } }: ModelToolCall): Record<string, unknown> | undefined {
  try {
    const args: unknown = JSON.parse(json)
    return typeof args === 'object' && args !== null && !Array.isArray(args) ? { ...args } : undefined
  } catch {
    return undefined
  }
}

/** Returns refusals to the model, which may try another way. */
async function useTool(socket: SocketClient, names: ReadonlyMap<string, string>, call: ModelToolCall): Promise<string> {
  const { name } = call.function
  process.stderr.write(`tool ${name}\n`)
  const args = parseArguments(call)
  if (!args) return 'error: the arguments are not a JSON object'
  try {
    const { text, isError } = await socket.call(names.get(name) ?? name, args)
    return `${isError ? 'error: ' : ''}${text}`.slice(0, RESULT_MAX)
  } catch (error) {
    if (error instanceof RpcFault) return `error: ${error.message}`
    throw error
  }
}

/** Endpoints do not accept dots in function names. */
function toFunctions(tools: readonly ListedTool[]): { shown: readonly object[]; names: ReadonlyMap<string, string> } {
  const names = new Map(tools.map(({ name }) => [name.replace(/[^A-Za-z0-9_-]/g, '__').slice(0, 64), name]))
  const shown = [...names].map(([shownAs, name]) => {
    const { description = '', inputSchema = { type: 'object', properties: {} } } =
      tools.find((tool) => tool.name === name) ?? {}
    return { type: 'function', function: { name: shownAs, description, parameters: inputSchema } }
  })
  return { shown, names }
}

async function buildSystemPrompt({ workspace, folder }: OpenaiTask): Promise<string> {
  const guides = [
    `You are the agent of the folder ${folder}. Your answer is sent to the chat, unless you have sent a message there with a tool.`,
  ]
  for (const name of GUIDES) {
    const text = await readFile(join(workspace, name), 'utf8').catch(() => '')
    if (text.trim() !== '') guides.push(text.slice(0, GUIDE_MAX))
  }
  return guides.join('\n\n')
}

/** Prints at most once per interval, and returns whether it did: runed stops a run that prints nothing for too long. */
function createHeartbeat(): () => boolean {
  let lastMs = 0
  return () => {
    const now = performance.now()
    if (now - lastMs < HEARTBEAT_MS) return false
    lastMs = now
    process.stderr.write('receiving the response of the model\n')
    return true
  }
}

/** A usual length of tokens. */
const CHARACTERS_PER_TOKEN = 4

/**
 * Adds up what the turn uses, and prints it for svc. Providers report the usage at the end of a response, so a request under way
 * is estimated by its length: a turn that is stopped meanwhile has used it, too.
 */
export class CostMeter {
  readonly #task: Pick<OpenaiTask, 'endpoint' | 'moneyCents'>
  readonly #write: (line: string) => void
  #used = { input: 0, output: 0, cents: 0 }
  #underWay = { input: 0, output: 0 }

  constructor(
    task: Pick<OpenaiTask, 'endpoint' | 'moneyCents'>,
    write: (line: string) => void = (line) => void process.stdout.write(line),
  ) {
    this.#task = task
    this.#write = write
  }

  start({ messages, tools }: Pick<CompletionRequest, 'messages' | 'tools'>): void {
    let imageCount = 0
    const text = JSON.stringify([messages, tools], (key, value) => {
      if (key !== 'image_url') return value
      imageCount++
      return undefined
    })
    const input = Math.ceil(text.length / CHARACTERS_PER_TOKEN) + imageCount * TOKENS_PER_IMAGE
    this.#underWay = { input, output: 0 }
    this.print()
  }

  /** Sets the number of characters of the response so far. */
  receive(length: number): void {
    this.#underWay.output = Math.ceil(length / CHARACTERS_PER_TOKEN)
  }

  finish({ inputTokens, cachedTokens, outputTokens, cost }: Omit<Completion, 'text' | 'calls' | 'end'>): void {
    // Some endpoints report no usage.
    const isEstimated = inputTokens + outputTokens === 0
    const { input, output } = isEstimated ? this.#underWay : { input: inputTokens, output: outputTokens }
    const cached = isEstimated ? 0 : cachedTokens
    const { reportsCost } = this.#task.endpoint
    const isReported = cost !== undefined && (reportsCost || cost > 0)
    this.#add(input, output, isReported ? cost * 100 : this.#centsOf(input - cached, cached, output))
  }

  /** A request without a response is free; one whose response broke off is not. */
  fail(): void {
    const { input, output } = this.#underWay
    if (output > 0) this.#add(input, output, this.#centsOf(input, 0, output))
    else this.#add(0, 0, 0)
  }

  #add(input: number, output: number, cents: number): void {
    const used = this.#used
    this.#used = { input: used.input + input, output: used.output + output, cents: used.cents + cents }
    this.#underWay = { input: 0, output: 0 }
    this.print()
  }

  #centsOf(input: number, cached: number, output: number): number {
    const { price } = this.#task.endpoint
    return price ? (input * price.input + cached * price.cached + output * price.output) / 1_000_000 : 0
  }

  print(): void {
    const { input, output } = this.#underWay
    const used: ModelUsage = {
      model: this.#task.endpoint.model,
      input: this.#used.input + input,
      output: this.#used.output + output,
      cents: this.#used.cents + this.#centsOf(input, 0, output),
    }
    this.#write(`${JSON.stringify({ usage: [used] })}\n`)
  }

  /** Call between rounds: a request that was sent cannot be cancelled. */
  requireBudget(): void {
    const { moneyCents } = this.#task
    const { cents } = this.#used
    if (moneyCents !== undefined && cents >= moneyCents && cents > 0)
      throw new RunFault('terminal', 'it has used up its budget', 'overBudget')
  }
}
