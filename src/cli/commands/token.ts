// Route tokens: links where others post to a folder. The raw token is shown once, when it is minted.
import { refuse } from '../../lib/refusal.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'
import { command, type Svc } from '../command.ts'

const tokens = routeTokensResource.verbs

function showMinted(svc: Svc, { jid, token, url }: { jid: string; token: string; url: string }): void {
  svc.print.record({ jid, token, url }, { jid, token, url })
}

export const tokenCommands = [
  command({
    usage: 'token <instance> issue chat <folder> [<suffix>] [--context|-c <text>]',
    about: 'mint a chat link to a folder; <suffix> sets its chat apart, --context tells the agent what it is for',
    example: "token demo issue chat main site --context 'Visitors of the web site. Be brief.'",
    run: async (svc, { folder, suffix, context }) =>
      showMinted(svc, await svc.call(tokens.issue_chat, { target_folder: folder, jid_suffix: suffix, context })),
  }),
  command({
    usage: 'token <instance> issue webhook <folder> <source> [<suffix>] [--context|-c <text>]',
    about: 'mint a link that another system posts to; <source> becomes the sender',
    example: 'token demo issue webhook main github',
    run: async (svc, { folder, source, suffix, context }) =>
      showMinted(
        svc,
        await svc.call(tokens.issue_hook, {
          target_folder: folder,
          source_label: source,
          jid_suffix: suffix,
          context,
        }),
      ),
  }),
  command({
    usage: 'token <instance> list <folder> [--json]',
    about: 'show the links that a folder owns or that deliver to it, newest first; never the tokens',
    example: 'token demo list main',
    run: async (svc, { folder }) =>
      svc.print.table({
        rows: await svc.rows(tokens.list_of, 'tokens', { folder }),
        columns: {
          JID: (token) => token.jid,
          OWNER: (token) => token.owner_folder,
          TARGET: (token) => token.target_folder ?? '-',
          CREATED_AT: (token) => token.created_at,
          CONTEXT: (token) => token.context ?? '-',
        },
        empty: `no tokens of ${folder}`,
      }),
  }),
  command({
    usage: 'token <instance> revoke <jid> [<owner_folder>]',
    about: 'end every link of a JID at once; with <owner_folder>, only if that folder owns it',
    example: 'token demo revoke web:main/site',
    run: async (svc, { jid, owner_folder }) => {
      if (owner_folder !== undefined) await mustOwn(svc, jid, owner_folder)
      const { deleted } = await svc.call(tokens.revoke, { jid })
      svc.print.line(`revoked ${jid} (${deleted} ${deleted === 1 ? 'token' : 'tokens'})`)
    },
  }),
]

async function mustOwn(svc: Svc, jid: string, folder: string): Promise<void> {
  const owned = (await svc.rows(tokens.list_of, 'tokens', { folder })).filter((token) => token.owner_folder === folder)
  if (!owned.some((token) => token.jid === jid)) refuse('not_found', `${folder} owns no token at ${jid}`)
}
