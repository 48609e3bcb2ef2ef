// E-mail: receives over IMAP, where a mail stays in the mailbox and the number of the next one is the position, and sends over SMTP,
// which has no keys: a mail whose answer was lost is looked for among the sent ones, and never sent twice. See docs/email.md.
import type { AccountAccess, AccountCheck, Connector, ConnectorContext } from '../process/port.ts'
import { AccountHealth } from './account-health.ts'
import { accountFault, ownAddress } from './mail-account.ts'
import { MailActions } from './mail-actions.ts'
import { MailReceiver } from './mail-receiver.ts'
import { MailMemory } from './mail-threads.ts'
import { openMailbox } from './mailbox.ts'
import { checkSmtp } from './smtp-sender.ts'

/** Of a text: servers and mail programs show longer ones slowly. */
const TEXT_MAX = 500_000
/** Providers take mails of about 25 MB, and a file grows by a third. */
const FILE_MAX = 25 * 1024 * 1024

const TRUST_STEP =
  'Senders count as verified only if the receiving server says so: if it writes Authentication-Results, add its name with --set authserv=<name> (docs/email.md)'

export async function checkAccount(account: AccountAccess): Promise<AccountCheck> {
  const mailbox = await openMailbox(account, (callback) => callback).catch((error) => {
    throw accountFault('IMAP', error)
  })
  try {
    await mailbox.position()
  } catch (error) {
    throw accountFault('IMAP', error)
  } finally {
    mailbox.close()
  }
  await checkSmtp(account)
  return { name: ownAddress(account), steps: account.settings.authserv === undefined ? [TRUST_STEP] : [] }
}

export async function openConnector(context: ConnectorContext): Promise<Connector> {
  const memory = new MailMemory(context.state)
  const health = new AccountHealth(context)
  const receiver = new MailReceiver(context, memory, health)
  const receiving = receiver.run()
  receiving.catch(
    context.guard((error: unknown) => {
      throw error
    }),
  )
  await receiver.started
  const actions = new MailActions(context, memory, receiver, health)
  return {
    limits: { text: TEXT_MAX, fileBytes: FILE_MAX },
    actions: actions.all,
    repeats: (out) => actions.findSent(out),
    close: () => receiving.catch(() => undefined),
  }
}
