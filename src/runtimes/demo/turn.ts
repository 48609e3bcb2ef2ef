// One turn of the demo, in its own process: it reads what was said, and answers by the tools of its folder's socket.
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
  const said = task.messages.map(({ text }) => text).join('\n')
  try {
    socket = await SocketClient.open(task.socket, task.turn)
    const script = scriptForMessage(task.script ?? '', said) ?? parseScript(said)
    return { sessionId: task.session, ...(await new DemoTurn(socket, task).run(script)) }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { fault: { kind: error instanceof SocketFault ? 'unavailable' : 'again', message } }
  } finally {
    socket?.close()
  }
}

class DemoTurn {
  readonly #socket: SocketClient
  readonly #task: DemoTask
  /** What an earlier try has said is not said again. */
  #skip: number
  /** What no tool would say: it is left to whoever waits for the end. */
  readonly #unsaid: string[] = []

  constructor(socket: SocketClient, task: DemoTask) {
    this.#socket = socket
    this.#task = task
    this.#skip = task.sentCount
  }

  async run(script: ReturnType<typeof parseScript>): Promise<AgentRunResult> {
    if (typeof script === 'string') await this.#fail(script)
    else if (script) await this.#perform(script)
    else await this.#answer()
    return this.#unsaid.length > 0 ? { result: this.#unsaid.join('\n\n') } : {}
  }

  async #answer(): Promise<void> {
    const { messages, turn, sentCount, jid, sender } = this.#task
    // Where a word of that kind is no message of its own, and somebody waits for it.
    const isWaitedFor = sentCount === 0 && jid.startsWith('web:') && !sender.startsWith('timed')
    if (isWaitedFor) await this.#socket.request('submit_status', { turn_id: turn.id, text: 'Reading your message' })
    for (const { text } of messages) {
      // What a task asks for apart from any chat is for an agent that knows its skills.
      if (sender.startsWith('timed-isolated') && parsePhrase(text).ask === 'talk') continue
      if (this.#skip > 0) this.#skip--
      else {
        const words = await answerMessage(this.#socket, this.#task, text)
        if (words !== undefined) await this.#say(words)
      }
    }
  }

  async #perform(steps: readonly ScriptStep[]): Promise<void> {
    for (const step of steps) if (!(await this.#step(step))) return
  }

  /** Whether it goes on. */
  async #step(step: ScriptStep): Promise<boolean> {
    const { id: turn_id } = this.#task.turn
    switch (step.do) {
      case 'say':
        await this.#say(this.#filled(step.text))
        return true
      case 'status':
        if (this.#skip === 0) await this.#socket.request('submit_status', { turn_id, text: this.#filled(step.text) })
        return true
      case 'result':
        await this.#socket.request('submit_turn', { turn_id, status: 'success', result: this.#filled(step.text) })
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
        // Nothing comes of it, and nothing is heard: whoever watches must notice.
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
    const filled = JSON.parse(this.#filled(JSON.stringify(args), (value) => JSON.stringify(value).slice(1, -1)))
    const { text, isError } = await this.#socket.call(name, filled).catch((error) => {
      if (error instanceof RpcFault) return { text: error.message, isError: true }
      throw error
    })
    // Each step is said once: what a tool of this kind has said, it has said.
    if (isError) await this.#say(`refused: ${text}`)
    else if (!MESSAGE_TOOLS.has(name)) await this.#say(text)
  }

  async #say(text: string): Promise<void> {
    if (this.#skip > 0) {
      this.#skip--
      return
    }
    const isSaid = await this.#socket.call('reply', { chatJid: this.#task.jid, text }).then(
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
    if (!isSaid) this.#unsaid.push(text)
  }

  /** The turn has failed, and the agent says so itself. */
  async #fail(error: string): Promise<void> {
    await this.#socket.request('submit_turn', { turn_id: this.#task.turn.id, status: 'error', error })
  }

  /** `{text}`, `{sender}`, `{folder}` and `{jid}` stand for what the turn is about. */
  #filled(text: string, write = (value: string): string => value): string {
    const { messages, sender, folder, jid } = this.#task
    const values: Record<string, string> = { text: messages.map((said) => said.text).join('\n'), sender, folder, jid }
    return text.replace(/\{(text|sender|folder|jid)\}/g, (whole, name) => write(values[name] ?? whole))
  }
}
