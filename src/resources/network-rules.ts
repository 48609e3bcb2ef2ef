// Network rules: which hosts a folder may reach. For tools and the command line; not served over REST.
import { z } from 'zod'
import {
  DEFAULT_HOSTS,
  isDefaultRule,
  mustNotBeTopLevel,
  NetworkRule,
  networkRules,
  resolveAllowlist,
} from '../core/access/allowlist.ts'
import { creatorOf } from '../core/access/caller.ts'
import { networkDenials } from '../core/access/network-denials.ts'
import { Folder, FolderOrRoot } from '../core/values.ts'
import { breadthWarning } from '../lib/http/public-suffix.ts'
import { refuse } from '../lib/refusal.ts'
import { readableFolderFilter, requireTool, requireToolForAgents } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { ascending, listPage, listSchema, mustFindGroup, Paging, UNPAGED } from '../registry/crud.ts'
import { defineResource, defineVerb, toolArguments } from '../registry/resource.ts'

const Rule = NetworkRule.pick({ folder: true, target: true })
/** The root of the rules is '', which is also INSTANCE_SCOPE. */
const requireToolOnFolder = requireTool(({ folder }: { folder: string }) => folder)

async function mustExist(ctx: Context, folder: string): Promise<void> {
  if (folder !== '') await mustFindGroup(ctx, folder)
}

/** Refuses an unknown folder only if the caller may see it, so that callers do not learn which others exist. */
async function visibleRows(ctx: Context, folder: string | undefined) {
  const maySee = await readableFolderFilter(ctx)
  if (folder !== undefined && maySee(folder)) await mustExist(ctx, folder)
  return { where: folder === undefined ? {} : { folder }, keep: (row: { folder: string }) => maySee(row.folder) }
}

export const networkRulesResource = defineResource({
  of: networkRules,
  title: 'NetworkRules',
  servedBy: 'routd',
  exported: {
    fill: (ctx, row, current) => {
      if (!current) mustNotBeTopLevel(row.target)
      return {
        ...row,
        created_at: row.created_at ?? current?.created_at ?? ctx.now,
        created_by: row.created_by ?? current?.created_by ?? creatorOf(ctx.caller),
      }
    },
  },
  verbs: (table) => ({
    list: defineVerb({
      isReadOnly: true,
      when: 'List the hosts that your folder may reach by its own rules.',
      input: Paging.extend({ folder: FolderOrRoot.optional() }),
      toolInput: toolArguments({ folder: FolderOrRoot.optional() }, (args) => ({ ...UNPAGED, ...args })),
      output: listSchema(table, 'network_rules'),
      authorize: requireToolForAgents,
      run: async (ctx, { folder, ...paging }) =>
        listPage(ctx, table, 'network_rules', {
          ...(await visibleRows(ctx, folder)),
          order: ascending('folder', 'target'),
          ...paging,
        }),
    }),

    /** Allowing twice changes nothing; `added` tells whether the rule is new. */
    allow: defineVerb({
      when: 'Allow a folder to reach a host and its subdomains.',
      input: Rule,
      output: z.object({
        added: z.boolean(),
        target: z.string(),
        warning: z.string().optional().describe('Why the rule allows more than it seems to'),
      }),
      authorize: requireToolOnFolder,
      auditInput: (input, { added }) => (added ? input : undefined),
      run: async (ctx, rule) => {
        await mustExist(ctx, rule.folder)
        mustNotBeTopLevel(rule.target)
        if (isDefaultRule(rule)) return { added: false, target: rule.target }
        const added = await table.insertIfMissing(ctx.tx, {
          ...rule,
          created_at: ctx.now,
          created_by: creatorOf(ctx.caller),
        })
        const warning = breadthWarning(rule.target)
        return { added, target: rule.target, ...(warning === undefined ? {} : { warning }) }
      },
    }),

    deny: defineVerb({
      when: 'Remove the rule that allows a folder to reach a host.',
      input: Rule,
      authorize: requireToolOnFolder,
      run: async (ctx, rule) => {
        // Removing a stored row for a default host at the root would have no effect.
        if (!isDefaultRule(rule) && (await table.remove(ctx.tx, rule)) > 0) return
        if (DEFAULT_HOSTS.includes(rule.target))
          refuse('invalid', `${rule.target} is a default host: every folder may reach it, and it cannot be removed`)
        refuse('not_found', `${rule.folder || '(root)'} has no rule for ${rule.target}`)
      },
    }),

    resolve: defineVerb({
      isReadOnly: true,
      when: 'List all hosts that a folder may reach, including inherited rules.',
      input: z.object({ folder: FolderOrRoot }),
      output: z.object({ hosts: z.array(z.string()) }),
      authorize: requireToolOnFolder,
      run: async (ctx, { folder }) => {
        await mustExist(ctx, folder)
        return { hosts: await resolveAllowlist(ctx.tx, folder) }
      },
    }),

    denied: defineVerb({
      isReadOnly: true,
      when: 'List the hosts that your folder was denied, newest first.',
      input: Paging.extend({ folder: Folder.optional() }),
      toolInput: toolArguments({ folder: Folder.optional() }, (args) => ({ ...UNPAGED, ...args })),
      output: listSchema(networkDenials, 'network_denials'),
      authorize: requireToolForAgents,
      run: async (ctx, { folder, ...paging }) =>
        listPage(ctx, networkDenials, 'network_denials', {
          ...(await visibleRows(ctx, folder)),
          order: [['last_at', 'desc'], ...ascending('folder', 'host', 'sni', 'port', 'reason')],
          ...paging,
        }),
    }),
  }),
})
