// The tools of Claude Code itself, as its output reports them: which calls are under way, and what readers of the chat see of them.
// Those of svc are reported by their socket.
import { isObject } from '../../lib/text/json.ts'
import { MCP_SERVER_NAME } from '../mcp-config.ts'
import type { ProgramCalls } from '../runtime.ts'

const PHRASES: ReadonlyMap<string, string> = new Map([
  ['Agent', 'Working on a part of the task'],
  ['Bash', 'Running a command'],
  ['BashOutput', 'Running a command'],
  ['Edit', 'Changing a file'],
  ['Glob', 'Looking for files'],
  ['Grep', 'Searching in files'],
  ['LS', 'Looking for files'],
  ['MultiEdit', 'Changing a file'],
  ['NotebookEdit', 'Changing a file'],
  ['NotebookRead', 'Reading a file'],
  ['Read', 'Reading a file'],
  ['Task', 'Working on a part of the task'],
  ['TodoWrite', 'Planning the next steps'],
  ['WebFetch', 'Looking on the web'],
  ['WebSearch', 'Looking on the web'],
  ['Write', 'Writing a file'],
])

export const CLIENT_PHRASES: ReadonlySet<string> = new Set(PHRASES.values())

export class ClientToolCalls {
  readonly #calls: ProgramCalls | undefined
  /** By the id of the call. */
  readonly #open = new Map<string, (isFailed: boolean) => void>()

  constructor(calls: ProgramCalls | undefined) {
    this.#calls = calls
  }

  /** Reads a message of the model, or the results that the client gives it. */
  read(message: unknown): void {
    if (!this.#calls || !isObject(message) || !Array.isArray(message.content)) return
    for (const block of message.content) {
      if (!isObject(block)) continue
      if (block.type === 'tool_use') this.#start(this.#calls, block)
      if (block.type === 'tool_result') this.#end(block)
    }
  }

  /** The model has the results of all calls, also of those whose result was too long to be read. */
  endAll(): void {
    for (const end of this.#open.values()) end(false)
    this.#open.clear()
  }

  #start(calls: ProgramCalls, { id, name, input }: Readonly<Record<string, unknown>>): void {
    if (typeof id !== 'string' || typeof name !== 'string' || this.#open.has(id)) return
    if (name.startsWith(`mcp__${MCP_SERVER_NAME}__`)) return
    const call = { tool: name, phrase: PHRASES.get(name), args: isObject(input) ? input : {} }
    this.#open.set(id, calls.start(call))
  }

  #end({ tool_use_id: id, is_error: isError }: Readonly<Record<string, unknown>>): void {
    if (typeof id !== 'string') return
    this.#open.get(id)?.(isError === true)
    this.#open.delete(id)
  }
}
