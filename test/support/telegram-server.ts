// A local server of the Bot API, with what matters of its semantics: an update stays until a later offset is asked for, one poller at
// a time, long polls, files by path, 429 with retry_after. The shapes are those of the documentation of the Bot API.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type {
  PlatformEvent,
  PlatformMessage,
  PlatformStandIn,
  SendFault,
} from '../../src/channels/process/connector.contract.ts'
import type { CleanupScope } from './temp.ts'
import { WebhookSender } from './webhook-sender.ts'

export const TELEGRAM_TOKEN = '123456789:stand-in-token-of-the-bot-0123456789'
const BOT = { id: 123456789, is_bot: true, first_name: 'Ada', username: 'ada_test_bot' }
export const TELEGRAM_PERSON = { id: 42, is_bot: false, first_name: 'Mia', last_name: 'Berg', username: 'mia' }
const OTHER_BOT = { id: 77, is_bot: true, first_name: 'Other', username: 'other_bot' }
export const TELEGRAM_GROUP = { id: -1001234, type: 'supergroup', title: 'The team', is_forum: true }
const PRIVATE = { id: 42, type: 'private', first_name: 'Mia', last_name: 'Berg' }

interface SentMessage extends PlatformMessage {
  text: string
  buttons: string[]
  readonly method: string
}

export interface TelegramServer extends PlatformStandIn {
  readonly url: string
  readonly sent: readonly SentMessage[]
  /** Names of methods with their parameters, in order. */
  readonly calls: readonly { readonly method: string; readonly params: Record<string, unknown> }[]
  /** Adds an update as Telegram would send it. */
  update(members: Record<string, unknown>): number
  /** Methods that this server does not know, like an older one. */
  forget(...methods: string[]): void
  /** Runs once, before the next request for updates is answered. */
  beforeNextPoll(work: () => void): void
  /** As setWebhook set it. */
  readonly webhook: Webhook | undefined
  /** Statuses of all attempts to deliver by webhook. */
  readonly deliveries: readonly number[]
  /** Reaches addresses of names that do not exist. */
  rewriteWebhook(to: (url: string) => string): void
  /** What getWebhookInfo says of the last delivery. */
  failWebhook(message: string): void
  /** How often files were asked for; all of them fail. */
  failFiles(): { readonly count: number }
  /** Fails the next call of a method with this error. */
  refuse(method: string, code: number, description: string, parameters?: object): void
  readonly pinned: ReadonlySet<string>
  readonly reactions: ReadonlyMap<string, readonly string[]>
}

interface Webhook {
  readonly url: string
  readonly secret: string
}

interface Update extends Record<string, unknown> {
  readonly update_id: number
}

export async function openTelegramServer(
  t: CleanupScope,
  { inGroup = false, receive }: { readonly inGroup?: boolean; readonly receive?: 'webhook' } = {},
): Promise<TelegramServer> {
  const chat = inGroup ? TELEGRAM_GROUP : PRIVATE
  const updates: Update[] = []
  const messages: (SentMessage & { isDeleted?: boolean })[] = []
  const files = new Map<string, Uint8Array>()
  const calls: { method: string; params: Record<string, unknown> }[] = []
  const pinned = new Set<string>()
  const reactions = new Map<string, string[]>()
  const forgotten = new Set<string>()
  const refused = new Map<string, { code: number; description: string; parameters: object }>()
  const polls = new Set<() => void>()
  let [nextUpdate, nextMessage, isRevoked]: [number, number, boolean] = [500, 900, false]
  let fault: SendFault | undefined
  let beforePoll: (() => void) | undefined
  let webhookFault: { last_error_date?: number; last_error_message?: string } = {}
  let failedFiles: { count: number } | undefined
  let last: Update | undefined

  let webhook: Webhook | undefined
  let deliverTo: ((url: string) => string) | undefined
  const sender = new WebhookSender<Update>(t, (added) => {
    if (!webhook) return undefined
    const headers = { 'Content-Type': 'application/json', 'X-Telegram-Bot-Api-Secret-Token': webhook.secret }
    return { url: deliverTo?.(webhook.url) ?? webhook.url, headers, body: JSON.stringify(added) }
  })
  const update = (members: Record<string, unknown>): number => {
    const added = { update_id: nextUpdate++, ...members }
    if (webhook) sender.add(added)
    else updates.push(added)
    last = added
    for (const wake of [...polls]) wake()
    return added.update_id
  }
  const now = (): number => Math.floor(Date.now() / 1000)
  const fromOf = (by: PlatformEvent['by']) => (by === 'bot' ? OTHER_BOT : by === 'self' ? BOT : TELEGRAM_PERSON)
  const shown = ({ id, text }: SentMessage) => ({ message_id: Number(id), date: now(), chat, from: BOT, text })

  const say = ({ text, by, replyTo, file }: PlatformEvent): string => {
    const id = nextMessage++
    const replied = messages.find((message) => message.id === replyTo)
    const message: Record<string, unknown> = { message_id: id, date: now(), chat, from: fromOf(by) }
    if (file) {
      const file_id = `file-${id}`
      files.set(file_id, file.bytes)
      message.document = { file_id, file_name: file.name, mime_type: file.type, file_size: file.bytes.length }
      if (text !== undefined) message.caption = text
    } else message.text = text
    if (replied) message.reply_to_message = shown(replied)
    // Telegram does not deliver the bot's own messages.
    if (by !== 'self') update({ message })
    return String(id)
  }

  const send = (method: string, params: Record<string, unknown>, file?: { name: string; bytes: number }): object => {
    const rich = params.rich_message
    const text =
      typeof rich === 'object' && rich !== null && 'markdown' in rich
        ? String(rich.markdown)
        : String(params.text ?? params.caption ?? '')
    const reply = params.reply_parameters
    const message: SentMessage = {
      id: String(nextMessage++),
      chat: `${inGroup ? 'group' : 'user'}/${params.chat_id}`,
      text,
      buttons: buttonsIn(params.reply_markup),
      method,
      ...(typeof reply === 'object' && reply !== null && 'message_id' in reply
        ? { replyTo: String(reply.message_id) }
        : {}),
      ...(params.message_thread_id === undefined ? {} : { threadId: String(params.message_thread_id) }),
      ...(file ? { files: [file] } : {}),
    }
    messages.push(message)
    return shown(message)
  }

  const METHODS: Record<string, (params: Record<string, unknown>, file?: { name: string; bytes: number }) => unknown> =
    {
      getMe: () => ({ ...BOT, can_read_all_group_messages: false, can_join_groups: true }),
      setWebhook: ({ url: given, secret_token: secret }) => {
        if (!String(given).startsWith('http')) throw new BotError(400, 'Bad Request: bad webhook: invalid URL')
        webhook = { url: String(given), secret: String(secret) }
        // What waited for a poll is delivered, too.
        sender.add(...updates.splice(0))
        return true
      },
      getWebhookInfo: () => ({
        ...{ url: webhook?.url ?? '', has_custom_certificate: false, pending_update_count: sender.waiting },
        ...webhookFault,
      }),
      deleteWebhook: () => {
        webhook = undefined
        updates.push(...sender.takeAll())
        return true
      },
      setMyCommands: () => true,
      sendChatAction: () => true,
      answerCallbackQuery: () => true,
      getFile: ({ file_id }) => ({ file_id, file_path: `documents/${file_id}` }),
      setMessageReaction: ({ message_id, reaction }) => {
        const given: readonly unknown[] = Array.isArray(reaction) ? reaction : []
        const names = given.flatMap((each) =>
          typeof each === 'object' && each !== null && 'emoji' in each ? [String(each.emoji)] : [],
        )
        reactions.set(String(message_id), names)
        return true
      },
      pinChatMessage: ({ message_id }) => Boolean(pinned.add(String(message_id))),
      unpinChatMessage: ({ message_id }) => pinned.delete(String(message_id)) || true,
      unpinAllChatMessages: () => {
        pinned.clear()
        return true
      },
      deleteMessage: ({ message_id }) => {
        const found = find(message_id)
        found.isDeleted = true
        return true
      },
      editMessageText: (params) => {
        const found = find(params.message_id)
        const rich = params.rich_message
        found.text =
          typeof rich === 'object' && rich !== null && 'markdown' in rich ? String(rich.markdown) : String(params.text)
        found.buttons = buttonsIn(params.reply_markup)
        return shown(found)
      },
    }
  const SENDING = ['sendMessage', 'sendRichMessage', 'sendPhoto', 'sendDocument', 'sendVoice', 'forwardMessage']
  const find = (id: unknown) => {
    const found = messages.find((message) => message.id === String(id) && !message.isDeleted)
    if (!found) throw new BotError(400, 'Bad Request: message to edit not found')
    return found
  }

  const poll = async (params: Record<string, unknown>, request: IncomingMessage): Promise<unknown> => {
    if (webhook) throw new BotError(409, "Conflict: can't use getUpdates method while webhook is active")
    const work = beforePoll
    beforePoll = undefined
    work?.()
    const offset = Number(params.offset ?? 0)
    // Asking confirms what is before.
    while (updates[0] && updates[0].update_id < offset) updates.shift()
    if (updates.length === 0 && Number(params.timeout ?? 0) > 0)
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          polls.delete(wake)
          request.socket.off('close', wake)
          resolve()
        }
        polls.add(wake)
        request.socket.once('close', wake)
      })
    if (isRevoked) throw new BotError(401, 'Unauthorized')
    return updates.filter(({ update_id }) => update_id >= offset).slice(0, Number(params.limit ?? 100))
  }

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const [, root = '', token = '', rest = ''] = /^\/(file\/)?bot([^/]+)\/(.+)$/.exec(request.url ?? '') ?? []
    const { params, file } = await readParams(request)
    const answer = (status: number, body: object): void => {
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
    }
    const fail = (error_code: number, description: string, more: object = {}): void =>
      answer(error_code, { ok: false, error_code, description, ...more })
    if (root !== '') {
      if (failedFiles) {
        failedFiles.count++
        response.writeHead(200, { 'Content-Length': 100 }).write('the start')
        return void setImmediate(() => request.socket.destroy())
      }
      const bytes = files.get(rest.replace('documents/', ''))
      if (!bytes) return fail(404, 'Not Found')
      response.writeHead(200).end(bytes)
      return
    }
    calls.push({ method: rest, params })
    if (token !== TELEGRAM_TOKEN || isRevoked) return fail(401, 'Unauthorized')
    if (forgotten.has(rest)) return fail(404, 'Not Found: method not found')
    const refusal = refused.get(rest)
    refused.delete(rest)
    if (refusal) return fail(refusal.code, refusal.description, { parameters: refusal.parameters })
    const isSending = SENDING.includes(rest)
    const now = isSending ? fault : undefined
    if (isSending) fault = undefined
    if (now === 'lost before') return void request.socket.destroy()
    if (now === 'error') return fail(502, 'Bad Gateway')
    if (typeof now === 'object')
      return fail(
        429,
        'Too Many Requests',
        now.limited === undefined ? {} : { parameters: { retry_after: now.limited } },
      )
    try {
      const method = METHODS[rest]
      const result =
        rest === 'getUpdates' ? await poll(params, request) : isSending ? send(rest, params, file) : method?.(params)
      if (now === 'lost after') return void request.socket.destroy()
      if (result === undefined) return fail(404, 'Not Found: method not found')
      answer(200, { ok: true, result })
    } catch (error) {
      if (!(error instanceof BotError)) throw error
      fail(error.code, error.message)
    }
  }

  const server = createServer((request, response) => {
    handle(request, response).catch(() => request.socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
  t.after(() => {
    for (const wake of [...polls]) wake()
    server.closeAllConnections()
    server.close()
  })
  const reaction = (id: string, before: string[], after: string[]): void => {
    const typed = (names: string[]) => names.map((emoji) => ({ type: 'emoji', emoji }))
    update({
      message_reaction: {
        ...{ chat, message_id: Number(id), user: TELEGRAM_PERSON, date: now() },
        ...{ old_reaction: typed(before), new_reaction: typed(after) },
      },
    })
  }
  return {
    url,
    account: { settings: receive ? { receive } : {}, secrets: { token: TELEGRAM_TOKEN }, apiUrl: url },
    chat: inGroup ? `group/${TELEGRAM_GROUP.id}` : `user/${PRIVATE.id}`,
    person: `telegram:user/${TELEGRAM_PERSON.id}`,
    get sent() {
      return messages.filter(({ isDeleted }) => !isDeleted)
    },
    clearSent: () => {
      messages.length = 0
      calls.length = 0
      pinned.clear()
      reactions.clear()
      forgotten.clear()
      refused.clear()
    },
    calls,
    update,
    say,
    edit: (id, text) =>
      void update({
        edited_message: { message_id: Number(id), date: now(), edit_date: now(), chat, from: TELEGRAM_PERSON, text },
      }),
    react: (id, emoji) => reaction(id, [], [emoji]),
    unreact: (id, emoji) => reaction(id, [emoji], []),
    buttonsOf: (id) => messages.find((message) => message.id === id)?.buttons ?? [],
    press: (id, data) => {
      const message = { message_id: Number(id), date: now(), chat, from: BOT, text: 'with buttons' }
      update({
        callback_query: {
          id: String(4_382_000_000_000_000_000n + BigInt(nextUpdate)),
          from: TELEGRAM_PERSON,
          message,
          chat_instance: '-7',
          data,
        },
      })
    },
    failNext: (next) => {
      fault = next
    },
    revoke: () => {
      isRevoked = true
      for (const wake of [...polls]) wake()
    },
    repeat: () => {
      if (last) update({ ...last, update_id: nextUpdate })
    },
    forget: (...methods) => {
      for (const method of methods) forgotten.add(method)
    },
    beforeNextPoll: (work) => {
      beforePoll = work
    },
    get webhook() {
      return webhook
    },
    deliveries: sender.statuses,
    rewriteWebhook: (to) => {
      deliverTo = to
    },
    failWebhook: (message) => {
      webhookFault = { last_error_date: now(), last_error_message: message }
    },
    failFiles: () => {
      failedFiles = { count: 0 }
      return failedFiles
    },
    refuse: (method, code, description, parameters = {}) => void refused.set(method, { code, description, parameters }),
    pinned,
    reactions,
  }
}

/** Data of the buttons, as the platform accepts it. */
function buttonsIn(markup: unknown): string[] {
  const { inline_keyboard: rows = [] } = (markup ?? {}) as { inline_keyboard?: { callback_data: string }[][] }
  const found = rows.flat().map(({ callback_data }) => callback_data)
  if (found.some((data) => Buffer.byteLength(data) > 64)) throw new BotError(400, 'Bad Request: BUTTON_DATA_INVALID')
  return found
}

class BotError extends Error {
  readonly code: number

  constructor(code: number, description: string) {
    super(description)
    this.code = code
  }
}

/** JSON, or a form with a file. */
async function readParams(request: IncomingMessage) {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  const bytes = Buffer.concat(chunks)
  const type = request.headers['content-type'] ?? ''
  if (!type.startsWith('multipart/'))
    return { params: bytes.length === 0 ? {} : (JSON.parse(bytes.toString()) as Record<string, unknown>) }
  const form = await new Response(bytes, { headers: { 'Content-Type': type } }).formData()
  const params: Record<string, unknown> = {}
  let file: { name: string; bytes: number } | undefined
  for (const [name, value] of form) {
    if (value instanceof File) file = { name: value.name, bytes: value.size }
    else params[name] = /^[[{]/.test(value) ? JSON.parse(value) : value
  }
  return { params, file }
}
