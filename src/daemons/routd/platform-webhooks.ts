// Requests of chat platforms at /channels/<account>/…, which proxyd passes on: each goes to the adapter of its account, which checks
// who sent it. Unknown accounts, and those that take no webhooks, are answered as unknown paths are.
import type { Context } from 'hono'
import type { AddressPolicy } from '../../channels/address-policy.ts'
import { deliverWebhook } from '../../channels/index.ts'
import { channelAccounts } from '../../core/delivery/channel-accounts.ts'
import {
  type ChannelRegistration,
  channelRegistrations,
  channelToken,
} from '../../core/delivery/channel-registrations.ts'
import { receivesWebhooks } from '../../core/delivery/platform-accounts.ts'
import { clientNetwork } from '../../lib/http/client-network.ts'
import { readBodyBytes } from '../../lib/http/http.ts'
import { RetryLaterRefusal, refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import type { DaemonContext } from '../daemon.ts'
import { AttemptLimiter } from '../http/attempt-limiter.ts'
import { clientAddressOf, pathOf } from '../http/request-middleware.ts'

const PATH = /^\/channels\/([a-z][a-z0-9_-]{0,63})(\/[^?#]*)?$/
/** Of one network to one account: platforms send a burst after an outage. Anyone can send, so others must not use it up. */
const RATE = { count: 3000, windowMs: 60_000 }
/** Requests of one network to one account that wait for the adapter, and all to it. */
const RUNNING_OF_NETWORK = 32
const RUNNING_OF_ACCOUNT = 64
const BUSY_S = 2
const HEADER_MAX = 8192
const PASSED_HEADER = /^(?:content-type$|user-agent$|x-)/
/** What proxies say of the client, and what daemons say of a caller. */
const KEPT_HEADER =
  /^x-(?:forwarded-|real-ip$|request-id$|user-sub$|user-name$|user-groups$|user-sig$|folder$|group-name$)/

export function mountPlatformWebhooks(
  { host, app }: Pick<DaemonContext, 'host' | 'app'>,
  addresses: AddressPolicy,
): void {
  const limiter = new AttemptLimiter(RATE, host.clock, 'too many requests')
  const running = new RunningRequests()

  app.all('/channels/*', async (c) => {
    const { method } = c.req
    const [, account, path = '/'] = PATH.exec(pathOf(c.req.url)) ?? []
    if (account === undefined || (method !== 'GET' && method !== 'POST')) return c.notFound()
    const receiver = await host.engine.read((tx) => findReceiver(tx, account))
    if (!receiver) return c.notFound()
    const network = clientNetwork(clientAddressOf(c))
    limiter.take(`${account} ${network}`)
    const body = await readBodyBytes(c.req.raw)
    const { registration } = receiver
    if (!registration) return refuseAway(account)
    const envelope = {
      ...{ method, path, query: queryOf(c.req.url), headers: passedHeaders(c) },
      body: Buffer.from(body).toString('base64'),
    }
    const token = channelToken(host.keyring, registration)
    const answer = await running.run(account, network, () =>
      deliverWebhook({ url: registration.url, token, addresses }, envelope),
    )
    if (!answer) return refuseAway(account)
    const { status, headers } = answer
    const isEmpty = status === 204 || status === 205 || answer.body === ''
    return new Response(isEmpty ? null : answer.body, { status, headers: { ...DEFAULT_HEADERS, ...headers } })
  })
}

/** Without a type, browsers may guess one. */
const DEFAULT_HEADERS = { 'content-type': 'text/plain; charset=utf-8' }

interface Receiver {
  /** Absent while the adapter is away. */
  readonly registration?: ChannelRegistration | undefined
}

async function findReceiver(tx: Tx, account: string): Promise<Receiver | undefined> {
  const registration = await channelRegistrations.find(tx, { name: account })
  if (registration?.capabilities.webhook === true) return { registration }
  const row = await channelAccounts.find(tx, { account })
  return row && receivesWebhooks(row.platform, row.settings) ? {} : undefined
}

/** The platform learns only that it should deliver again. */
function refuseAway(account: string): never {
  refuse('unavailable', `the adapter ${account} is away, or has failed`)
}

function queryOf(url: string): string {
  const start = url.indexOf('?')
  return start < 0 ? '' : url.slice(start + 1)
}

function passedHeaders(c: Context): Record<string, string> {
  return Object.fromEntries(
    [...c.req.raw.headers].filter(
      ([name, value]) => PASSED_HEADER.test(name) && !KEPT_HEADER.test(name) && value.length <= HEADER_MAX,
    ),
  )
}

class RunningRequests {
  readonly #counts = new Map<string, number>()

  async run<T>(account: string, network: string, work: () => Promise<T>): Promise<T> {
    const keys = [account, `${account} ${network}`] as const
    const [ofAccount, ofNetwork] = keys.map((key) => this.#counts.get(key) ?? 0)
    if ((ofAccount ?? 0) >= RUNNING_OF_ACCOUNT || (ofNetwork ?? 0) >= RUNNING_OF_NETWORK)
      throw new RetryLaterRefusal('too many requests are waiting', BUSY_S)
    for (const key of keys) this.#add(key, 1)
    try {
      return await work()
    } finally {
      for (const key of keys) this.#add(key, -1)
    }
  }

  #add(key: string, change: number): void {
    const count = (this.#counts.get(key) ?? 0) + change
    if (count > 0) this.#counts.set(key, count)
    else this.#counts.delete(key)
  }
}
