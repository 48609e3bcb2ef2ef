// Signing keys with their state, without the private keys, and bearers signed with them.
import { z } from 'zod'
import { groups } from '../core/groups/groups.ts'
import { signingKeys } from '../core/secrets/signing-keys.ts'
import { Folder } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { canOperateUnrestricted, operatorWho, requireInstanceTool } from '../registry/authorization.ts'
import { ascending, listVerb } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

export const signingKeysResource = defineResource({
  of: signingKeys,
  title: 'SigningKeys',
  servedBy: 'authd',
  verbs: (table) => ({
    list: listVerb(table, 'signing_keys', {
      authorize: requireInstanceTool,
      order: [['created_at', 'desc'], ...ascending('kid')],
    }),

    issue_bearer: defineVerb({
      input: z.object({
        sub: z.string().describe('The person or service that the bearer identifies'),
        folder: Folder.optional().describe('Folder that the person acts from'),
        ttl_ms: z.number().optional(),
      }),
      output: z.string(),
      // Bearers of services pass between daemons; no page hands them out.
      authorize: operatorWho(async (ctx, { sub }) => !sub.startsWith('service:') && canOperateUnrestricted(ctx, '**')),
      // Signing reads the key in its own transaction; the bearer is returned only after the audit row is committed.
      prepare: async ({ host }, { sub, folder, ttl_ms: ttlMs }) => {
        const { issueBearer } = await import('../core/access/bearers.ts')
        return issueBearer(host, { sub, folder, ttlMs, kind: sub.startsWith('service:') ? 'service' : 'user' })
      },
      run: async ({ tx, instance }, { folder }, bearer) => {
        if (folder !== undefined && !(await groups.find(tx, { folder })))
          refuse('not_found', `there is no group ${folder}`, `svc group ${instance} list shows them`)
        return String(bearer)
      },
    }),
  }),
})
