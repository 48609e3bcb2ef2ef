// Says something to a folder through its chat link, as anybody who holds the link would, and waits for the answer if asked.
import { randomBytes, randomUUID } from 'node:crypto'
import { refuse } from '../../lib/refusal.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { readStdinText } from '../input/stdin.ts'
import type { ConfiguredInstance } from '../instance/instance.ts'
import type { LinkClient } from '../link/link-client.ts'
import type { SentMessage } from '../output/round-output.ts'

const STDIN_MAX_BYTES = 64 * 1024 * 1024
/** Exit codes: what never got through (decision E6), and what a shell knows Ctrl-C by. */
const TRANSPORT = 2
const INTERRUPTED = 130

export const sendCommands = [
  defineSvcCommand({
    usage: 'send <instance> <folder> [<message>] [--wait|-w] [--stream|-s] [--stdin] [--topic|-t <id>] [--json]',
    about:
      'say something to a folder through its chat link; --wait and --stream print the answer, --topic goes on with a conversation',
    example: "send demo main 'What is new?' --wait",
    run: async (svc, { instance, folder, message, stdin, wait, stream, topic = makeTopic() }) => {
      const content = await readContent(svc, message, stdin)
      const [{ findInstance, linkBaseUrl }, { operatorLinkProof }, { LinkClient, TransportError }] = await Promise.all([
        import('../instance/instance.ts'),
        import('../link/operator-link.ts'),
        import('../link/link-client.ts'),
      ])
      const configured = await findInstance(instance, svc.io.environment)
      for (const warning of configured.warnings) svc.print.warn(warning)
      const link = await operatorLinkProof(configured, folder)
      const stop = new AbortController()
      if (wait || stream) void svc.io.stopped().then(() => stop.abort())
      const client = new LinkClient(linkBaseUrl(configured), link, stop.signal)
      let turn_id: string | undefined
      const goesOn = (): string =>
        `the round ${turn_id} goes on; svc token ${instance} issue chat ${folder} prints a link that shows it`
      try {
        turn_id = await client.post({ content, topic }, randomUUID())
        const sent = { turn_id, topic }
        if (wait || stream) return await printAnswer(svc, sent, { client, stop, stream, instance })
        svc.print.record(sent, { ...sent, status: 'pending' })
        return 0
      } catch (error) {
        if (stop.signal.aborted) {
          svc.print.say(
            turn_id === undefined ? 'stopped before the server answered; it may have the message' : goesOn(),
          )
          return INTERRUPTED
        }
        if (!(error instanceof TransportError)) throw error
        svc.print.say(`svc: ${error.message}`)
        svc.print.say(`hint: ${turn_id === undefined ? await describeUnreachable(configured) : goesOn()}`)
        return TRANSPORT
      }
    },
  }),
]

/** It does not run, or it listens elsewhere than links say. */
async function describeUnreachable({ name, layout }: ConfiguredInstance): Promise<string> {
  const { urlOfProcess, servingProcesses } = await import('../../daemons/process/presence.ts')
  const address = (await servingProcesses(layout))?.map(urlOfProcess).find((known) => known !== undefined)
  if (address === undefined) return `svc serve ${name} starts the server`
  return `${name} is being served at ${address}; WEB_HOST in ${layout.env} says where links lead`
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
  if (svc.io.stderr.isTerminal) svc.print.say(`… sent; --topic ${sent.topic} goes on with it`)
  const { status, error } = stream
    ? await streamAndPrint(svc, client, sent)
    : await pollAndPrint(svc, client, sent, stop.signal)
  if (status !== 'failed') return 0
  svc.print.say(`svc: the round failed${error === undefined ? '' : `: ${error}`}`)
  svc.print.say(`hint: svc messages ${instance} show ${sent.turn_id} tells why`)
  return 1
}

function makeTopic(): string {
  return `send-${randomBytes(6).toString('hex')}`
}

async function readContent({ io }: SvcContext, message: string | undefined, isStdin: boolean): Promise<string> {
  if (message !== undefined && isStdin) refuse('invalid', 'give a message or --stdin, not both')
  if (message === undefined && !isStdin) refuse('invalid', 'there is no message', 'give one, or --stdin')
  const content = message ?? (await readStdinText(io.stdin, STDIN_MAX_BYTES)).trim()
  return content === '' ? refuse('invalid', 'the message is empty') : content
}
