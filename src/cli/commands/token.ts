// Route tokens: links for posting to a folder. The raw token is shown only once, when it is minted.
import { defaultReach, type Reach } from '../../core/access/reach.ts'
import { parseSignatureScheme } from '../../core/links/webhook-signatures.ts'
import { refuse } from '../../lib/refusal.ts'
import { inboxResource } from '../../resources/inbox.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { resolveIdPrefix } from '../input/id-prefix.ts'
import { readStdinText } from '../input/stdin.ts'

const tokens = routeTokensResource.verbs

interface PrintedLink {
  readonly jid: string
  readonly token: string
  readonly url: string
  readonly answer_secret?: string | undefined
}

function printLink({ print }: SvcContext, { jid, token, url, answer_secret }: PrintedLink): void {
  const link = { jid, token, url, ...(answer_secret === undefined ? {} : { answer_secret }) }
  print.record(link, link)
}

export const tokenCommands = [
  defineSvcCommand({
    usage: 'token <instance> issue chat <folder> [<suffix>] [--context|-c <text>] [--tools <reach>] [--visitors <how>]',
    about:
      'mint a chat link to a folder; <suffix> gives it a separate chat, --context tells the agent its purpose, --tools (chat, work, all) limits what visitors can have the agent do, --visitors apart lets each visitor see only their own conversation (default together; it cannot be changed later, so mint another link)',
    example: "token demo issue chat main site --visitors apart --context 'Visitors of the web site. Be brief.'",
    run: async (svc, { folder, suffix, context, tools: reach, visitors }) => {
      const verb = isApart(visitors) ? tokens.issue_apart : tokens.issue_chat
      const input = { target_folder: folder, jid_suffix: suffix, context, ...toToolsField(reach) }
      printLink(svc, await svc.call(verb, input))
    },
  }),
  defineSvcCommand({
    usage:
      'token <instance> issue webhook <folder> <source> [<suffix>] [--context|-c <text>] [--tools <reach>] [--verify <scheme>] [--verify-secret <v>] [--answer-to <target>]',
    about:
      'mint a link for posts of another system; <source> becomes the sender; --verify (github, standard, stripe, hmac:<header>) accepts only signed requests; --answer-to (a chat, or an https URL) has the answers sent there, to a URL signed with the secret that is shown once',
    example: 'token demo issue webhook main github --verify github --verify-secret - < secret.txt',
    run: async (svc, { folder, source, suffix, context, tools: reach, verify, verifySecret, answerTo }) => {
      const input = { target_folder: folder, source_label: source, jid_suffix: suffix, context, ...toToolsField(reach) }
      if (verify === undefined && verifySecret !== undefined)
        refuse('invalid', '--verify-secret needs --verify, which says how requests are signed')
      if (verify === undefined && answerTo === undefined)
        return printLink(svc, await svc.call(tokens.issue_hook, input))
      if (verify !== undefined) parseSignatureScheme(verify)
      const verify_secret = verify === undefined ? undefined : await readVerifySecret(svc, verifySecret)
      const answers = { verify, verify_secret, answer_to: answerTo }
      printLink(svc, await svc.call(tokens.issue_operator_hook, { ...input, ...answers }))
    },
  }),
  defineSvcCommand({
    usage: 'token <instance> list [<folder>] [--json]',
    about:
      'list all links, or those that a folder owns or that deliver to it, newest first, never the tokens; --json adds counts of accepted, refused and stored data',
    example: 'token demo list main',
    run: async (svc, { folder }) =>
      svc.print.table({
        rows: await svc.listAll(tokens.list_of, 'tokens', { folder }),
        columns: {
          JID: (token) => token.jid,
          OWNER: (token) => token.owner_folder,
          TARGET: (token) => token.target_folder ?? '-',
          CREATED_AT: (token) => token.created_at,
          LAST_USED: (token) => token.last_used_at ?? '-',
          TOOLS: (token) => token.tools ?? defaultReach(token.jid),
          VISITORS: (token) => (token.jid.startsWith('web:') ? (token.visitors ?? 'together') : '-'),
          VERIFY: (token) => token.verify ?? '-',
          ANSWER_TO: (token) => token.answer_to ?? '-',
          CONTEXT: (token) => token.context ?? '-',
        },
        empty: folder === undefined ? 'no tokens' : `no tokens of ${folder}`,
      }),
  }),
  defineSvcCommand({
    usage: 'token <instance> revoke <jid> [<owner_folder>]',
    about: 'revoke all links of a JID at once; with <owner_folder>, only if that folder owns them',
    example: 'token demo revoke web:main/site',
    run: async (svc, { jid, owner_folder }) => {
      if (owner_folder !== undefined) await mustOwn(svc, jid, owner_folder)
      const { deleted } = await svc.call(tokens.revoke, { jid })
      svc.print.line(`revoked ${jid} (${deleted} ${deleted === 1 ? 'token' : 'tokens'})`)
    },
  }),
  defineSvcCommand({
    usage: 'token <instance> test <jid>',
    about: 'post a test message through the newest link of a JID, as its visitors or its source would',
    example: 'token demo test hook:main/github',
    run: async (svc, { instance, jid }) => {
      const { message_id } = await svc.call(tokens.deliver_test, { jid })
      svc.print.line(`sent test message ${message_id} through ${jid}`)
      svc.print.say(`svc messages ${instance} show ${message_id} shows the result`)
    },
  }),
  defineSvcCommand({
    usage: 'token <instance> replay <message_id>',
    about:
      'deliver a message of a link again, as a new message with the context and reach of the first; a unique prefix of the id is enough',
    example: 'token demo replay 0199a1b2-c3d4-7e5f',
    run: async (svc, { instance, message_id: prefix }) => {
      const { ids } = await svc.call(inboxResource.verbs.ids, { prefix })
      const { message_id } = await svc.call(tokens.replay, { id: resolveIdPrefix('message', prefix, ids) })
      svc.print.line(`sent message ${message_id}`)
      svc.print.say(`svc messages ${instance} show ${message_id} shows the result`)
    },
  }),
]

function isApart(visitors: string | undefined): boolean {
  if (visitors === undefined || visitors === 'together') return false
  return visitors === 'apart' || refuse('invalid', '--visitors must be together or apart')
}

/** The verb checks the value. */
function toToolsField(reach: string | undefined): { tools?: Reach } {
  return reach === undefined ? {} : { tools: reach as Reach }
}

const SECRET_MAX_BYTES = 65_536

/** Reads the signing secret from stdin or a prompt; a command line stays in the shell history and is visible to all users. */
async function readVerifySecret({ io }: SvcContext, given: string | undefined): Promise<string> {
  if (given === '-') return (await readStdinText(io.stdin, SECRET_MAX_BYTES)).replace(/\r?\n$/, '')
  const hint = '--verify-secret - reads it from stdin'
  if (given !== undefined) refuse('invalid', 'a secret on the command line would stay in the shell history', hint)
  if (!io.promptHidden) refuse('invalid', '--verify needs the secret that the sender signs with', hint)
  return io.promptHidden('the secret that the sender signs with')
}

async function mustOwn(svc: SvcContext, jid: string, folder: string): Promise<void> {
  const owned = (await svc.listAll(tokens.list_of, 'tokens', { folder })).filter(
    (token) => token.owner_folder === folder,
  )
  if (!owned.some((token) => token.jid === jid)) refuse('not_found', `${folder} owns no token at ${jid}`)
}
