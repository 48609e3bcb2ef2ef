// What OAuth clients and the people who allow them do, each in one transaction with its audit row. There is no REST route: the
// pages and endpoints of authd call these verbs.
import { z } from 'zod'
import { hasGrant } from '../core/access/policy.ts'
import {
  checkAuthorizationCode,
  createAuthorizationCode,
  useAuthorizationCode,
} from '../core/people/authorization-codes.ts'
import { findClientSession, refreshClientSession, startClientSession } from '../core/people/client-sessions.ts'
import {
  createDeviceCode,
  decideDevice,
  findDeviceRequest,
  formatUserCode,
  pollDeviceCode,
} from '../core/people/device-codes.ts'
import { oauthClients, registerClient, touchRegisteredClient } from '../core/people/oauth-clients.ts'
import { revokeSession } from '../core/people/sessions.ts'
import { line } from '../core/values.ts'
import { clientSite } from '../lib/http/client-network.ts'
import { refuse } from '../lib/refusal.ts'
import { mustBeSignedIn } from '../permissions/signed-in-person.ts'
import { allowAnyone } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const Secret = z.string().meta({ writeOnly: true })
const ClientName = line(100)
const ClientId = line(2048)
const Address = line(64).optional()
const Target = { aud: line(256), scope: line(64) }

/** A refresh token with what the access token needs, or the error of the answer (RFC 6749 5.2, RFC 8628 3.5). */
const TokenGrant = z.object({
  error: z.string().optional(),
  family_id: z.string().optional(),
  sub: z.string().optional(),
  aud: z.string().optional(),
  scope: z.string().optional(),
  refresh_token: z.string().optional(),
  is_reused: z.boolean().optional(),
})
export type TokenGrantReply = z.output<typeof TokenGrant>

export const oauthClientsResource = defineResource({
  of: oauthClients,
  title: 'OauthClients',
  servedBy: [],
  verbs: (table) => ({
    /** Not audited: strangers could fill the log. */
    register: defineVerb({
      input: table.row.pick({ client_name: true, redirect_uris: true, grant_types: true }).extend({ address: Address }),
      output: table.row,
      authorize: allowAnyone,
      auditInput: () => undefined,
      run: (ctx, { address, ...client }) => registerClient(ctx.tx, ctx, { ...client, network: clientSite(address) }),
    }),

    /** A signed-in person lets a client act for them. */
    allow: defineVerb({
      input: z.object({
        client_id: ClientId,
        client_name: ClientName,
        redirect_uri: line(1024),
        challenge: line(64),
        ...Target,
      }),
      output: z.object({ code: z.string() }),
      authorize: (ctx) => {
        mustBeSignedIn(ctx)
      },
      run: async (ctx, grant) => ({
        code: await createAuthorizationCode(ctx.tx, ctx, { ...grant, sub: mustBeSignedIn(ctx) }),
      }),
    }),

    exchange_code: defineVerb({
      input: z.object({
        client_id: ClientId,
        code: Secret,
        redirect_uri: line(1024),
        code_verifier: Secret,
        aud: line(256).optional().describe('The audience that the request names'),
        address: Address,
      }),
      output: TokenGrant,
      authorize: allowAnyone,
      auditInput: auditedGrant,
      run: async (ctx, { client_id: clientId, code, redirect_uri, code_verifier, aud, address }) => {
        const nowMs = ctx.clock.now()
        const exchange = { code, clientId, redirectUri: redirect_uri, verifier: code_verifier }
        const verdict = await checkAuthorizationCode(ctx.tx, exchange, nowMs)
        if (verdict.outcome === 'refused') return { error: 'invalid_grant' }
        const { row } = verdict
        if (verdict.outcome === 'reused') {
          if (row.family_id === undefined || !(await revokeSession(ctx.tx, row.family_id)))
            return { error: 'invalid_grant' }
          return { error: 'invalid_grant', is_reused: true, family_id: row.family_id, sub: row.sub }
        }
        if (aud !== undefined && aud !== row.aud) return { error: 'invalid_target' }
        const reply = await startGrant(ctx, { ...row, address })
        await useAuthorizationCode(ctx.tx, code, reply.family_id, ctx.now)
        return reply
      },
    }),

    /** Not audited: strangers could fill the log. */
    request_device: defineVerb({
      input: z.object({ client_id: ClientId, client_name: ClientName, ...Target, address: Address }),
      output: z.object({ device_code: z.string(), user_code: z.string() }),
      authorize: allowAnyone,
      auditInput: () => undefined,
      run: async (ctx, { address, ...target }) => {
        const request = { ...target, network: clientSite(address) }
        const { deviceCode, userCode } = await createDeviceCode(ctx.tx, ctx, request)
        return { device_code: deviceCode, user_code: formatUserCode(userCode) }
      },
    }),

    decide_device: defineVerb({
      input: z.object({ user_code: Secret, is_allowed: z.boolean() }),
      output: z.object({ client_id: z.string(), client_name: z.string() }),
      authorize: (ctx) => {
        mustBeSignedIn(ctx)
      },
      auditInput: ({ is_allowed }, { client_id, client_name }) => ({ client_id, client_name, is_allowed }),
      run: async (ctx, { user_code, is_allowed: isAllowed }) => {
        const row = await findDeviceRequest(ctx.tx, ctx, user_code)
        if (!row) refuseUserCode()
        await decideDevice(ctx.tx, row, { sub: mustBeSignedIn(ctx), isAllowed })
        return { client_id: row.client_id, client_name: row.client_name }
      },
    }),

    poll_device: defineVerb({
      input: z.object({
        client_id: ClientId,
        device_code: Secret,
        aud: line(256).optional().describe('The audience that the request names'),
        address: Address,
      }),
      output: TokenGrant,
      authorize: allowAnyone,
      auditInput: auditedGrant,
      run: async (ctx, { client_id: clientId, device_code: code, aud, address }) => {
        const verdict = await pollDeviceCode(ctx.tx, { code, clientId, aud }, ctx.clock.now())
        return verdict.outcome === 'allowed' ? startGrant(ctx, { ...verdict.row, address }) : { error: verdict.outcome }
      },
    }),

    refresh: defineVerb({
      input: z.object({
        client_id: ClientId,
        refresh_token: Secret,
        aud: line(256).optional().describe('The audience that the request names'),
        is_allowed: z.boolean().describe('Whether an account of the person may enter without a grant'),
      }),
      output: TokenGrant,
      authorize: allowAnyone,
      // Only a reuse: clients refresh every hour.
      auditInput: ({ client_id }, reply) =>
        reply.is_reused ? { client_id, family_id: reply.family_id, sub: reply.sub, is_reused: true } : undefined,
      run: async (ctx, { client_id: clientId, refresh_token: token, aud, is_allowed }) => {
        const session = await findClientSession(ctx.tx, token)
        if (!session || (!is_allowed && !hasGrant(await ctx.policy(), session.sub))) return { error: 'invalid_grant' }
        if (aud !== undefined && aud !== session.aud) return { error: 'invalid_target' }
        const verdict = await refreshClientSession(ctx.tx, ctx, { token, clientId })
        if (verdict.outcome === 'refused') return { error: 'invalid_grant' }
        const { family_id, sub, aud: audience, scope } = verdict.session
        if (verdict.outcome === 'reused') return { error: 'invalid_grant', is_reused: true, family_id, sub }
        await touchRegisteredClient(ctx.tx, clientId, ctx.clock.now())
        return { family_id, sub, aud: audience, scope, refresh_token: verdict.token }
      },
    }),

    /** Ends the session of a token that the client has presented. */
    revoke: defineVerb({
      input: z.object({ family_id: line(64) }),
      output: z.object({ is_revoked: z.boolean() }),
      authorize: allowAnyone,
      auditInput: (input, { is_revoked }) => (is_revoked ? input : undefined),
      run: async (ctx, { family_id }) => ({ is_revoked: await revokeSession(ctx.tx, family_id) }),
    }),
  }),
})

interface StartedGrant {
  readonly client_id: string
  readonly client_name: string
  readonly sub: string
  readonly aud: string
  readonly scope: string
  readonly address?: string | undefined
}

async function startGrant(ctx: Context, grant: StartedGrant): Promise<TokenGrantReply & { family_id: string }> {
  const { client_id: clientId, client_name: clientName, sub, aud, scope, address } = grant
  const started = { sub, clientId, clientName, aud, scope, address }
  const { session, token } = await startClientSession(ctx.tx, ctx, started)
  await touchRegisteredClient(ctx.tx, clientId, ctx.clock.now())
  return { family_id: session.family_id, sub, aud, scope, refresh_token: token }
}

/** Refused attempts are not audited: strangers could fill the log. */
function auditedGrant({ client_id }: { client_id: string }, reply: TokenGrantReply): object | undefined {
  const { family_id, sub, is_reused } = reply
  return family_id === undefined ? undefined : { client_id, family_id, sub, ...(is_reused ? { is_reused } : {}) }
}

export function refuseUserCode(): never {
  refuse(
    'not_found',
    'this code is not valid',
    'it works once, for 10 minutes; start again in the program that showed it',
  )
}
