// Sends a message to a folder through its chat link, like any client with the link, and optionally waits for the answer.
import { randomBytes, randomUUID } from 'node:crypto'
import { basename } from 'node:path'
import { cell } from '../../lib/command-line/print.ts'
import { mustBeReadable } from '../../lib/files/atomic-file.ts'
import { refuse } from '../../lib/refusal.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { readStdinText } from '../input/stdin.ts'
import type { ConfiguredInstance } from '../instance/instance.ts'
import type { LinkClient, SentFile } from '../link/link-client.ts'
import type { SentMessage } from '../output/round-output.ts'

const STDIN_MAX_BYTES = 64 * 1024 * 1024
/** See docs/decisions.md#exit-codes. */
const EXIT_UNREACHABLE = 2
/** The exit code of shells for Ctrl-C. */
const EXIT_INTERRUPTED = 130

export const sendCommands = [
  defineSvcCommand({
    usage:
      'send <instance> <folder> [<message>] [--file <path>…] [--wait|-w] [--stream|-s] [--stdin] [--topic|-t <id>] [--json]',
    about:
      'send a message to a folder through its chat link, with a file for each --file; --wait and --stream print the answer, --topic continues a conversation',
    example: "send demo main 'What is new?' --wait",
    run: async (svc, { instance, folder, message, file, stdin, wait, stream, topic = makeTopic() }) => {
      const content = await readContent(svc, { message, isStdin: stdin, hasFiles: file.length > 0 })
      const files = await checkFiles(file)
      const [{ linkBaseUrl }, { atServedPort }, { findOperatorLink }, { LinkClient, TransportError }] =
        await Promise.all([
          import('../../daemons/process/listen-addresses.ts'),
          import('../instance/served-port.ts'),
          import('../link/operator-link.ts'),
          import('../link/link-client.ts'),
        ])
      const configured = await atServedPort(await svc.findInstance())
      const { proof, visitor } = await findOperatorLink(configured, folder)
      const stop = new AbortController()
      if (wait || stream) void svc.io.stopped().then(() => stop.abort())
      const client = new LinkClient(linkBaseUrl(configured.sources), proof, stop.signal, visitor)
      let turn_id: string | undefined
      const describeRunning = (): string =>
        `round ${turn_id} continues on the server; svc token ${instance} issue chat ${folder} mints a link that shows it`
      try {
        turn_id = await client.post({ content, topic, files }, randomUUID())
        const sent = { turn_id, topic }
        if (wait || stream) return await printAnswer(svc, sent, { client, stop, stream, instance })
        svc.print.record(sent, { ...sent, status: 'pending' })
        return 0
      } catch (error) {
        if (stop.signal.aborted) {
          svc.print.say(
            turn_id === undefined
              ? 'stopped before the server responded; it may have received the message'
              : describeRunning(),
          )
          return EXIT_INTERRUPTED
        }
        if (!(error instanceof TransportError)) throw error
        svc.print.say(`svc: ${error.message}`)
        svc.print.say(`hint: ${turn_id === undefined ? await describeUnreachable(configured) : describeRunning()}`)
        return EXIT_UNREACHABLE
      }
    },
  }),
]

/** Either no server is running, or it listens on another address than links point to. */
async function describeUnreachable({ name, layout }: ConfiguredInstance): Promise<string> {
  const { startCommand } = await import('../../deploy/start-command.ts')
  const { urlOfProcess, servingProcesses } = await import('../../daemons/process/presence.ts')
  const address = (await servingProcesses(layout))?.map(urlOfProcess).find((known) => known !== undefined)
  if (address === undefined) return `${await startCommand({ name, layout })} starts the server`
  return `${name} is being served at ${address}, but links point to WEB_HOST in ${layout.env}`
}

interface AnswerOptions {
  readonly client: LinkClient
  readonly stop: AbortController
  readonly stream: boolean
  readonly instance: string
}

async function printAnswer(
  svc: SvcContext,
  sent: SentMessage,
  { client, stop, stream, instance }: AnswerOptions,
): Promise<number> {
  const { streamAndPrint, pollAndPrint } = await import('../output/round-output.ts')
  if (svc.io.stderr.isTerminal) svc.print.say(`… sent; --topic ${sent.topic} continues the conversation`)
  const { status, error } = stream
    ? await streamAndPrint(svc, client, sent)
    : await pollAndPrint(svc, client, sent, stop.signal)
  if (status !== 'failed') return 0
  const { FAILURE_MESSAGES } = await import('../../core/turns/turn-failures.ts')
  if (error === FAILURE_MESSAGES.stopped) {
    svc.print.say('svc: the answer was stopped')
    return 1
  }
  svc.print.say(`svc: the round failed${error === undefined ? '' : `: ${cell(error)}`}`)
  svc.print.say(`hint: svc messages ${instance} show ${sent.turn_id} shows the reason`)
  return 1
}

async function checkFiles(paths: readonly string[]): Promise<SentFile[]> {
  for (const path of paths) await mustBeReadable(path)
  return paths.map((path) => ({ name: basename(path), path }))
}

function makeTopic(): string {
  return `send-${randomBytes(6).toString('hex')}`
}

interface GivenContent {
  readonly message: string | undefined
  readonly isStdin: boolean
  readonly hasFiles: boolean
}

async function readContent({ io }: SvcContext, { message, isStdin, hasFiles }: GivenContent): Promise<string> {
  if (message !== undefined && isStdin) refuse('invalid', 'give a message or --stdin, not both')
  if (message === undefined && !isStdin && !hasFiles)
    refuse('invalid', 'no message given', 'add a message, --file or --stdin')
  const content = isStdin ? (await readStdinText(io.stdin, STDIN_MAX_BYTES)).trim() : (message ?? '')
  return content === '' && !hasFiles ? refuse('invalid', 'the message is empty') : content
}
