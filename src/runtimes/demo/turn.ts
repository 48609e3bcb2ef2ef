// Runs one turn of the demo, in the demo process: performs a script, or answers each message with the tools of its socket.
import { setTimeout as pause } from 'node:timers/promises'
import type { AgentRunResult } from '../runtime.ts'
import { RpcFault, SocketClient, SocketFault } from '../socket-client.ts'
import type { AgentOutcome } from '../warm-child.ts'
import { answerMessage } from './actions.ts'
import { parsePhrase } from './phrases.ts'
import { parseScript, type ScriptStep } from './script.ts'
import { scriptForMessage } from './script-file.ts'
import type { DemoTask } from './task.ts'

const MESSAGE_TOOLS = new Set(['post', 'reply', 'send', 'send_file', 'send_voice', 'quote', 'repost', 'forward'])

export async function runDemoTask(task: DemoTask): Promise<AgentOutcome> {
  let socket: SocketClient | undefined
  const text = joinTexts(task)
  try {
    socket = await SocketClient.open(task.socket, task.turn)
    const script = scriptForMessage(task.script ?? '', text) ?? parseScript(text)
    return { sessionId: task.session, ...(await new DemoTurn(socket, task).run(script)) }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { fault: { kind: error instanceof SocketFault ? 'unavailable' : 'retryable', message } }
  } finally {
    socket?.close()
  }
}

class DemoTurn {
  readonly #socket: SocketClient
  readonly #task: DemoTask
  /** The number of messages to skip, because an earlier attempt sent them. */
  #skip: number
  /** Replies that the tool refused; they become the result of the turn. */
  readonly #unsent: string[] = []

  constructor(socket: SocketClient, task: DemoTask) {
    this.#socket = socket
    this.#task = task
    this.#skip = task.sentCount
  }

  async run(script: ReturnType<typeof parseScript>): Promise<AgentRunResult> {
    if (typeof script === 'string') await this.#fail(script)
    else if (script) await this.#perform(script)
    else await this.#answer()
    return this.#unsent.length > 0 ? { result: this.#unsent.join('\n\n') } : {}
  }

  async #answer(): Promise<void> {
    const { messages, turn, sentCount, jid, sender } = this.#task
    // Only in web chats: on other platforms a status is a message, and scheduled tasks have no reader.
    const hasReader = sentCount === 0 && jid.startsWith('web:') && !sender.startsWith('timed')
    if (hasReader) await this.#socket.request('submit_status', { turn_id: turn.id, text: 'Reading your message' })
    for (const { text, files = [] } of messages) {
      // The prompts of isolated tasks are for agents with skills.
      if (sender.startsWith('timed-isolated') && parsePhrase(text).kind === 'talk') continue
      if (this.#skip > 0) this.#skip--
      else {
        const reply = await answerMessage(this.#socket, this.#task, text, files)
        if (reply !== undefined) await this.#say(reply)
      }
    }
  }

  async #perform(steps: readonly ScriptStep[]): Promise<void> {
    for (const step of steps) if (!(await this.#step(step))) return
  }

  /** Returns whether the script continues. */
  async #step(step: ScriptStep): Promise<boolean> {
    const { id: turn_id } = this.#task.turn
    switch (step.do) {
      case 'say':
        await this.#say(this.#fillIn(step.text))
        return true
      case 'status':
        if (this.#skip === 0) await this.#socket.request('submit_status', { turn_id, text: this.#fillIn(step.text) })
        return true
      case 'result':
        await this.#socket.request('submit_turn', { turn_id, status: 'success', result: this.#fillIn(step.text) })
        return true
      case 'wait':
        await pause(step.ms)
        return true
      case 'tool':
        await this.#tool(step.name, step.args)
        return true
      case 'crash':
        process.kill(process.pid, 'SIGKILL')
        return false
      case 'hang':
        // For tests of the watchdog: the process stays alive without output.
        await new Promise(() => setInterval(() => undefined, 60_000))
        return false
      default:
        await this.#fail(step.text)
        return false
    }
  }

  async #tool(name: string, args: Readonly<Record<string, unknown>>): Promise<void> {
    if (this.#skip > 0) {
      this.#skip--
      return
    }
    const filled = JSON.parse(this.#fillIn(JSON.stringify(args), (value) => JSON.stringify(value).slice(1, -1)))
    const { text, isError } = await this.#socket.call(name, filled).catch((error) => {
      if (error instanceof RpcFault) return { text: error.message, isError: true }
      throw error
    })
    // Tools that send messages need no second message with their result.
    if (isError) await this.#say(`refused: ${text}`)
    else if (!MESSAGE_TOOLS.has(name)) await this.#say(text)
  }

  async #say(text: string): Promise<void> {
    if (this.#skip > 0) {
      this.#skip--
      return
    }
    const isSent = await this.#socket.call('reply', { chatJid: this.#task.jid, text }).then(
      ({ isError, text: why }) => {
        if (isError) process.stderr.write(`reply: ${why}\n`)
        return !isError
      },
      (error) => {
        if (!(error instanceof RpcFault)) throw error
        process.stderr.write(`reply: ${error.message}\n`)
        return false
      },
    )
    if (!isSent) this.#unsent.push(text)
  }

  /** Reports the turn as failed. */
  async #fail(error: string): Promise<void> {
    await this.#socket.request('submit_turn', { turn_id: this.#task.turn.id, status: 'error', error })
  }

  /** Replaces the placeholders `{text}`, `{sender}`, `{folder}` and `{jid}` with values of the turn. */
  #fillIn(text: string, encode = (value: string): string => value): string {
    const { sender, folder, jid } = this.#task
    const values: Record<string, string> = { text: joinTexts(this.#task), sender, folder, jid }
    return text.replace(/\{(text|sender|folder|jid)\}/g, (whole, name) => encode(values[name] ?? whole))
  }
}

function joinTexts({ messages }: DemoTask): string {
  return messages.map(({ text }) => text).join('\n')
}
