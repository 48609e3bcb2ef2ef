// The verbs `access.explain` and `access.who`: what a principal may do in a folder, and who may administer or use a folder, each
// with the reason of the evaluator. They know every tool, so they belong to no resource.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import { agentFolderOf, explainActions, explainFolderUser, explainTools } from '../core/access/explanation.ts'
import { type DeclaredTiers, isOperator, rolesOf } from '../core/access/policy.ts'
import { findNames } from '../core/people/people.ts'
import { Folder, line } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { canOperate, operatorOn, operatorWho } from '../registry/authorization.ts'
import { Paging } from '../registry/crud.ts'
import { defineVerb, type NamedVerb, type Verb } from '../registry/resource.ts'
import type { Tool } from '../registry/tool.ts'
import { readCursor, writeCursor } from '../store/cursor.ts'

const Decision = {
  allow: z.boolean(),
  reason: z.string().describe('The row or rule that decided, or which is missing'),
}

const Principal = line(256)
  .refine((value) => /^[^\s:/]+:\S/.test(value), 'must look like github:42, role:member or folder:team')
  .describe('A person (github:42), a role (role:member), or the agent of a folder (folder:team)')

const Explanation = z.object({
  principal: z.string(),
  folder: z.string(),
  roles: z.array(z.string()).describe('Also the roles of its roles'),
  is_operator: z.boolean(),
  actions: z.array(z.object({ action: z.string(), ...Decision })),
  tools: z.array(
    z.object({ tool: z.string(), held: z.boolean().describe('An operator approves each call'), ...Decision }),
  ),
})

const FolderPerson = z.object({
  principal: z.string().describe('A person, the agent of a folder, or a glob of these'),
  name: z.string().optional(),
  may: z.enum(['administer', 'use']),
  is_operator: z.boolean(),
  reason: z.string(),
})

/** For the command line and the dashboard: operators ask about everyone, administrators about their folders, people about themselves. */
export function accessVerbs(tools: Iterable<Pick<Tool, 'name' | 'tiers'>>) {
  const declared: readonly DeclaredTiers[] = [...tools].map(({ name, tiers = {} }) => ({ tool: name, tiers }))
  return {
    explain: accessVerb(
      'explain',
      defineVerb({
        isReadOnly: true,
        input: z.strictObject({ principal: Principal, folder: Folder }),
        output: Explanation,
        authorize: operatorWho(
          async (ctx, { principal, folder }) =>
            principal === principalOf(ctx.caller) || (await canOperate(ctx, folder)),
        ),
        run: async (ctx, { principal, folder }) => {
          const policy = await ctx.policy()
          return {
            principal,
            folder,
            roles: rolesOf(policy, principal),
            is_operator: isOperator(policy, principal),
            // An agent has tools only.
            actions: agentFolderOf(principal) === undefined ? explainActions(policy, principal, folder) : [],
            tools: explainTools(policy, principal, folder, declared),
          }
        },
      }),
    ),
    who: accessVerb(
      'who',
      defineVerb({
        isReadOnly: true,
        input: Paging.extend({ folder: Folder }).strict(),
        output: z.object({ people: z.array(FolderPerson), next: z.string().optional() }),
        authorize: operatorOn(({ folder }) => folder),
        run: async (ctx, { folder, limit, after }) => {
          const policy = await ctx.policy()
          const from = after === undefined ? '' : positionOf(after)
          const found = []
          for (const principal of policy.principalsOn(folder)) {
            const user = principal > from ? explainFolderUser(policy, principal, folder) : undefined
            if (user) found.push(user)
            if (found.length > limit) break
          }
          const page = found.slice(0, limit)
          const names = await findNames(
            ctx.tx,
            page.map(({ principal }) => principal),
          )
          const last = found.length > limit ? page.at(-1) : undefined
          return {
            people: page.map((user) => ({ ...user, name: names.get(user.principal) })),
            ...(last ? { next: writeCursor([last.principal]) } : {}),
          }
        },
      }),
    ),
  }
}

function accessVerb<I extends z.ZodObject, O>(name: string, declared: Verb<I, O>): NamedVerb<I, O> {
  const id = `access.${name}`
  return { ...declared, id, resource: 'access', verb: name, key: ['folder'], toolName: id }
}

function positionOf(cursor: string): string {
  const [principal] = readCursor(cursor) ?? []
  if (typeof principal === 'string') return principal
  return refuse('invalid', 'after is not a cursor of this list', 'use the `next` of the previous page')
}
