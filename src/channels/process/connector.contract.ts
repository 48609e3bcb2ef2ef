// Tests that the adapter of every platform must pass: nothing is lost or doubled, whenever the adapter, svc or the platform fails.
// They run the real process of the adapter against a local server that behaves like the platform: tests that end it have their own,
// the others of a suite share one.
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import {
  type AdapterProcess,
  type FakeHost,
  openFakeHost,
  shareInSuite,
  startAdapter,
} from '../../../test/support/adapter-process.ts'
import { type CleanupScope, tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import type { AccountConfig } from './account-config.ts'

/** A message that reached the platform. */
export interface PlatformMessage {
  readonly id: string
  /** The part of the JID after the colon. */
  readonly chat: string
  readonly text: string
  readonly replyTo?: string | undefined
  readonly threadId?: string | undefined
  readonly files?: readonly { readonly name: string; readonly bytes: number }[] | undefined
}

/** What a person does at the platform. `by`: who writes; another bot, or the account itself. */
export interface PlatformEvent {
  readonly text?: string
  readonly by?: 'person' | 'bot' | 'self'
  readonly replyTo?: string
  readonly file?: { readonly name: string; readonly type: string; readonly bytes: Uint8Array }
}

/**
 * How the platform treats the next request that sends: it breaks the connection before or after the message is there, says that
 * there were too many, or fails.
 */
export type SendFault = 'lost before' | 'lost after' | { readonly limited: number | undefined } | 'error'

export interface PlatformStandIn {
  readonly account: Pick<AccountConfig, 'settings' | 'secrets' | 'apiUrl'>
  /** The part of the JID of the chat after the colon. */
  readonly chat: string
  /** The sender of the person's messages. */
  readonly person: string
  /** Messages of the account, in order, without those that were deleted. */
  readonly sent: readonly PlatformMessage[]
  /** Forgets them, for the next test with the same process. */
  clearSent(): void
  /** A person writes in the chat. Returns the platform's id. */
  say(event: PlatformEvent): string | Promise<string>
  edit?(id: string, text: string): void | Promise<void>
  remove?(id: string): void | Promise<void>
  react?(id: string, emoji: string): void | Promise<void>
  unreact?(id: string, emoji: string): void | Promise<void>
  /** Ids of the buttons below a message; absent if the platform has none. */
  buttonsOf?(id: string): readonly string[]
  press?(id: string, button: string): void | Promise<void>
  /** Where the platform sends events, if operators enter it there. */
  deliverTo?(url: string): void
  failNext(fault: SendFault): void
  /** Refuses the token from now on. */
  revoke(): void
  /** Delivers the last event once more, as platforms do after an unclear end. */
  repeat(): void | Promise<void>
}

export interface ConnectorUnderTest {
  readonly platform: string
  /** How it receives, if there are several ways. */
  readonly receive?: string | undefined
  /** Longest text of one message. */
  readonly textMax: number
  /** What happens to a message whose answer was lost: it is sent once, or svc is told that the result is unknown. */
  readonly afterLostAnswer: 'sent once' | 'unknown'
  open(t: CleanupScope): Promise<PlatformStandIn>
}

interface Subject {
  readonly host: FakeHost
  readonly platform: PlatformStandIn
  readonly jid: string
  readonly adapter: AdapterProcess
  /** Starts another process with the same state. */
  restart(): Promise<AdapterProcess>
}

const BIG_FILE = 20 * 1024 * 1024 - 1024

export function testConnector(subject: ConnectorUnderTest): void {
  const { platform: name, textMax, afterLostAnswer, receive } = subject
  const title = receive === undefined ? name : `${name} by ${receive}`
  const setUp = async (t: CleanupScope): Promise<Subject> => {
    const [host, platform] = [await openFakeHost(t), await subject.open(t)]
    const directory = join(tempDir(t), 'adapter')
    mkdirSync(directory)
    const webhookUrl = `${host.url}/channels/${name}/`
    platform.deliverTo?.(webhookUrl)
    const config = { platform: name, account: name, directory, webhookUrl, ...platform.account }
    const restart = (): Promise<AdapterProcess> => startAdapter(t, host, config)
    return { host, platform, jid: `${name}:${platform.chat}`, adapter: await restart(), restart }
  }
  /** Each test finds an account without messages. */
  const share = (): (() => Promise<Subject>) => {
    const shared = shareInSuite(setUp)
    return async () => {
      const { host, platform } = await shared()
      host.clear()
      platform.clearSent()
      return shared()
    }
  }
  const textsOf = (host: FakeHost): (string | undefined)[] => host.stored.map(({ content }) => content)
  let keys = 0
  const send = ({ host, jid }: Pick<Subject, 'host' | 'jid'>, content: string, key = `key ${++keys}`) =>
    host.post('/send', { chat_jid: jid, content, key })

  suite(`events of ${title}`, () => {
    const shared = share()
    test('are stored with their author, chat and id', async () => {
      const { host, platform, jid } = await shared()
      const id = await platform.say({ text: 'What is new?' })
      await until(() => host.stored.length === 1)
      const [event] = host.stored
      assert.deepEqual(
        [event?.chat_jid, event?.id, event?.sender, event?.content],
        [jid, id, platform.person, 'What is new?'],
      )
    })

    test('are stored in order and once, also if the platform repeats them', async () => {
      const { host, platform } = await shared()
      for (const text of ['one', 'two', 'three']) await platform.say({ text })
      await until(() => host.stored.length === 3)
      await platform.repeat()
      await platform.say({ text: 'four' })
      await until(() => host.stored.length === 4)
      assert.deepEqual(textsOf(host), ['one', 'two', 'three', 'four'])
    })

    test('are delivered again after a crash before svc had them', async (t) => {
      const { host, platform, adapter, restart } = await setUp(t)
      host.behave('drop before')
      await platform.say({ text: 'one' })
      await until(() => host.received.length > 0)
      await adapter.kill()
      await platform.say({ text: 'two' })
      host.behave('ok')
      await restart()
      await until(() => host.stored.length === 2)
      assert.deepEqual(textsOf(host), ['one', 'two'])
    })

    test('are stored once after a crash before svc could answer', async (t) => {
      const { host, platform, adapter, restart } = await setUp(t)
      host.behave('drop after')
      await platform.say({ text: 'one' })
      await until(() => host.stored.length === 1)
      await adapter.kill()
      host.behave('ok')
      await restart()
      await platform.say({ text: 'two' })
      await until(() => host.stored.length === 2)
      assert.deepEqual(textsOf(host), ['one', 'two'])
    })

    test('that arrive while the adapter is down are fetched at its start', async (t) => {
      const { host, platform, adapter, restart } = await setUp(t)
      await platform.say({ text: 'before' })
      await until(() => host.stored.length === 1)
      assert.equal(await adapter.stop(), 0)
      for (const text of ['one', 'two']) await platform.say({ text })
      await restart()
      await until(() => host.stored.length === 3)
      assert.deepEqual(textsOf(host), ['before', 'one', 'two'])
    })

    test('wait while svc is not available', async () => {
      const { host, platform } = await shared()
      host.behave(503)
      for (const text of ['one', 'two']) await platform.say({ text })
      await until(() => host.received.length >= 2)
      assert.equal(host.stored.length, 0)
      host.behave('ok')
      await until(() => host.stored.length === 2)
      assert.deepEqual(textsOf(host), ['one', 'two'])
    })

    test('that svc refuses are not sent again and hold up nothing', async (t) => {
      const { host, platform, adapter, restart } = await setUp(t)
      host.behave(400)
      await platform.say({ text: 'refused' })
      await until(() => host.received.length === 1)
      host.behave('ok')
      await platform.say({ text: 'next' })
      await until(() => host.stored.length === 1)
      await adapter.stop()
      await restart()
      await platform.say({ text: 'last' })
      await until(() => host.stored.length === 2)
      assert.deepEqual(textsOf(host), ['next', 'last'])
      assert.equal(host.received.filter(({ content }) => content === 'refused').length, 1)
    })

    test('of the account itself and of other bots start nothing', async () => {
      const { host, platform } = await shared()
      await platform.say({ text: 'mine', by: 'self' })
      await platform.say({ text: 'of a bot', by: 'bot' })
      await platform.say({ text: 'of a person' })
      await until(() => textsOf(host).includes('of a person'))
      const others = host.stored.filter(({ content }) => content !== 'of a person')
      assert.ok(
        others.every(({ is_from_me }) => is_from_me === true),
        JSON.stringify(others),
      )
    })

    test('have the message that they reply to', async () => {
      const subject = await shared()
      const { host, platform } = subject
      const { body } = await send(subject, 'an answer')
      await platform.say({ text: 'why?', replyTo: String(body.id) })
      await until(() => host.stored.some(({ content }) => content === 'why?'))
      assert.equal(host.stored.find(({ content }) => content === 'why?')?.reply_to, body.id)
    })

    test('bring files of 20 MB', async () => {
      const { host, platform } = await shared()
      const bytes = new Uint8Array(BIG_FILE).fill(7)
      await platform.say({ text: 'see', file: { name: 'photo.png', type: 'image/png', bytes } })
      await until(() => host.stored.length === 1)
      const [file] = host.stored[0]?.attachments ?? []
      assert.equal(file?.mime, 'image/png')
      assert.equal(Buffer.from(file?.data ?? '', 'base64').length, BIG_FILE)
    })

    test('change, remove and react to messages', async () => {
      const { host, platform } = await shared()
      const id = await platform.say({ text: 'first words' })
      await until(() => host.stored.length === 1)
      const last = (): object | undefined => host.stored.at(-1)
      if (platform.edit) {
        await platform.edit(id, 'other words')
        await until(() => host.stored.at(-1)?.edits === id)
        assert.partialDeepStrictEqual(last(), { edits: id, content: 'other words' })
      }
      if (platform.react) {
        await platform.react(id, '👍')
        await until(() => host.stored.at(-1)?.reaction !== undefined)
        assert.partialDeepStrictEqual(last(), { reaction: '👍', reply_to: id, sender: platform.person })
      }
      if (platform.unreact) {
        await platform.unreact(id, '👍')
        await until(() => host.stored.at(-1)?.reaction_removed === true)
        assert.partialDeepStrictEqual(last(), { reaction: '👍', reply_to: id, sender: platform.person })
      }
      if (platform.remove) {
        await platform.remove(id)
        await until(() => host.stored.at(-1)?.deletes === id)
      }
    })
  })

  suite(`messages to ${title}`, () => {
    const shared = share()
    test('are sent once with each key', async (t) => {
      const subject = await setUp(t)
      const { host, platform, adapter, restart } = subject
      const one = await send(subject, 'once', 'the key')
      assert.equal(one.status, 200)
      assert.deepEqual(await send(subject, 'once', 'the key'), one)
      await adapter.kill()
      await restart()
      assert.deepEqual(await send(subject, 'once', 'the key'), one)
      assert.deepEqual(
        platform.sent.map(({ id, text }) => [id, text]),
        [[one.body.id, 'once']],
      )
      assert.equal(host.capabilities.dedupe, true)
    })

    test('are sent once if svc repeats a key while it is being sent', async () => {
      const subject = await shared()
      const both = await Promise.all([send(subject, 'once', 'same'), send(subject, 'once', 'same')])
      assert.deepEqual(both[0], both[1])
      assert.equal(subject.platform.sent.length, 1)
    })

    test('are sent again after a connection that broke before the platform had them, or reported as unknown', async () => {
      const subject = await shared()
      subject.platform.failNext('lost before')
      const first = await send(subject, 'again', 'broken')
      assert.equal(first.status, 504)
      const second = await send(subject, 'again', 'broken')
      if (afterLostAnswer === 'sent once') {
        assert.equal(second.status, 200)
        assert.equal(subject.platform.sent.length, 1)
      } else assert.equal(second.status, 400)
    })

    test('whose answer is lost are never sent twice', async (t) => {
      const subject = await setUp(t)
      const { platform, adapter, restart } = subject
      platform.failNext('lost after')
      assert.equal((await send(subject, 'once', 'lost')).status, 504)
      assert.equal(platform.sent.length, 1)
      await adapter.kill()
      await restart()
      const again = await send(subject, 'once', 'lost')
      assert.equal(platform.sent.length, 1)
      if (afterLostAnswer === 'sent once') assert.deepEqual([again.status, again.body.id], [200, platform.sent[0]?.id])
      else {
        assert.equal(again.status, 400)
        assert.match(String(again.body.error), /may have been sent/)
      }
    })

    test('wait for the time that the platform names, or for a short one', async () => {
      const subject = await shared()
      subject.platform.failNext({ limited: 7 })
      const limited = await send(subject, 'later', 'limited')
      assert.deepEqual([limited.status, limited.retryAfter], [429, '7'])
      subject.platform.failNext({ limited: undefined })
      assert.equal((await send(subject, 'later', 'limited')).status, 429)
      assert.equal((await send(subject, 'later', 'limited')).status, 200)
      assert.equal(subject.platform.sent.length, 1)
    })

    test('are not split at the limit, and split one character above it', async () => {
      const subject = await shared()
      await send(subject, 'x'.repeat(textMax))
      assert.equal(subject.platform.sent.length, 1)
      await send(subject, `${'y'.repeat(textMax)}z`)
      const texts = subject.platform.sent.map(({ text }) => text)
      assert.equal(texts.length, 3)
      assert.equal(`${texts[1]}${texts[2]}`, `${'y'.repeat(textMax)}z`)
    })

    test('that are much longer keep their code, and all parts are changed and deleted together', async () => {
      const subject = await shared()
      const { host, platform, jid } = subject
      const lines = Array.from({ length: Math.ceil((3 * textMax) / 20) }, (_, at) => `line ${at} of the code`)
      const { body } = await send(subject, `Here it is:\n\n\`\`\`js\n${lines.join('\n')}\n\`\`\`\n\nThat was it.`)
      const parts = platform.sent
      assert.ok(parts.length >= 3)
      assert.equal(body.id, parts[0]?.id)
      const found = parts.flatMap(({ text }) => [...text.matchAll(/line \d+ of the code/g)].map(([line]) => line))
      assert.deepEqual(found, lines)
      if (host.capabilities.edit) {
        const edited = await host.post('/edit', { chat_jid: jid, target_id: body.id, content: 'short now' })
        assert.equal(edited.status, 200)
        assert.deepEqual(
          platform.sent.map(({ id, text }) => [id, text]),
          [[body.id, 'short now']],
        )
      }
      if (host.capabilities.delete) {
        assert.equal((await host.post('/delete', { chat_jid: jid, target_id: body.id })).status, 200)
        assert.equal(platform.sent.length, 0)
      }
    })

    test('have buttons, whose presses are stored once, until they are edited', async () => {
      const subject = await shared()
      const { host, platform, jid } = subject
      assert.equal(host.capabilities.buttons, platform.buttonsOf !== undefined)
      if (!platform.buttonsOf || !platform.press) return
      const buttons = [
        { id: 'approve', label: 'Approve', style: 'primary' },
        { id: 'a_long-id-of-a-button-with-40-characters', label: 'No', style: 'danger' },
      ]
      const asked = { chat_jid: jid, key: `key ${++keys}`, content: 'Shall I?', buttons }
      const id = String((await host.post('/send', asked)).body.id)
      assert.deepEqual(
        platform.buttonsOf(id),
        buttons.map((button) => button.id),
      )
      await platform.press(id, 'approve')
      await platform.repeat()
      await until(() => host.stored.length === 1)
      assert.partialDeepStrictEqual(host.stored[0], {
        ...{ chat_jid: jid, verb: 'action', action: 'approve', reply_to: id, sender: platform.person },
      })
      assert.equal(host.stored[0]?.content, undefined)
      assert.equal((await host.post('/edit', { chat_jid: jid, target_id: id, content: 'Approved' })).status, 200)
      assert.deepEqual(platform.buttonsOf(id), [])
      await platform.say({ text: 'thanks' })
      await until(() => host.stored.at(-1)?.content === 'thanks')
      assert.equal(host.stored.length, 2)
    })

    test('take over the draft of their turn, also after a crash, and a draft without a message is removed', async (t) => {
      const subject = await setUp(t)
      const { host, platform, jid, adapter, restart } = subject
      if (!host.capabilities.draft) return
      const at = { chat_jid: jid, key: 'turn 1', done: false }
      const draft = (members: object) => host.post('/draft', { ...at, ...members })
      assert.equal((await draft({ content: 'so far' })).status, 200)
      await until(() => platform.sent.length === 1)
      // A change of it shows that the adapter has its id.
      await draft({ content: 'so far so' })
      await until(() => platform.sent[0]?.text === 'so far so')
      await adapter.kill()
      await restart()
      const out = { chat_jid: jid, content: 'so far so good', key: 'key of the answer', turn_id: 'turn 1' }
      const { body } = await host.post('/send', out)
      const texts = () => platform.sent.map(({ id, text }) => [id, text])
      assert.deepEqual(texts(), [[body.id, 'so far so good']])
      assert.deepEqual(await host.post('/send', out), { status: 200, retryAfter: null, body })
      await draft({ content: 'late' })
      await draft({ key: 'turn 2', content: 'nothing will come of it' })
      await until(() => platform.sent.length === 2)
      await draft({ key: 'turn 2', done: true })
      await until(() => platform.sent.length === 1)
      assert.deepEqual(texts(), [[body.id, 'so far so good']])
    })

    test('have files with captions of any length', async () => {
      const { host, platform, jid } = await shared()
      if (!host.capabilities.send_file) return
      const sendFile = (key: string, caption: string) => {
        const form = new FormData()
        for (const [field, value] of Object.entries({ chat_jid: jid, key, filename: 'ä "note".txt', caption }))
          form.set(field, value)
        form.set('file', new File(['text of the file'], 'ä "note".txt', { type: 'text/plain' }))
        return host.post('/send-file', form)
      }
      assert.equal((await sendFile('short', 'a caption')).status, 200)
      assert.deepEqual(
        platform.sent[0]?.files?.map(({ bytes }) => bytes),
        [16],
      )
      assert.match(platform.sent[0]?.files?.[0]?.name ?? '', /^ä .note.\.txt$/)
      assert.equal((await sendFile('short', 'a caption')).status, 200)
      const before = platform.sent.length
      assert.equal((await sendFile('long', 'word '.repeat(textMax / 4))).status, 200)
      const more = platform.sent.slice(before)
      assert.equal(
        more
          .map(({ text }) => text)
          .join(' ')
          .match(/word/g)?.length,
        Math.floor(textMax / 4),
      )
    })

    test('of other bearers are refused', async () => {
      const { host, platform } = await shared()
      const response = await fetch(`${host.adapterUrl}/send`, { method: 'POST', body: '{}' })
      assert.equal(response.status, 401)
      assert.equal(platform.sent.length, 0)
    })

    test('are refused with a sentence after the token was revoked, and the health says so', async (t) => {
      const subject = await setUp(t)
      const { host, platform } = subject
      platform.revoke()
      const { status, body } = await send(subject, 'a text')
      assert.ok([400, 503].includes(status), String(status))
      assert.match(String(body.error), /\w+ \w+/)
      await until(async () => ['refused', 'login_needed'].includes(String((await host.get('/health')).body.status)))
      assert.doesNotMatch(
        JSON.stringify([body, (await host.get('/health')).body]),
        new RegExp(Object.values(platform.account.secrets).map(escapeRegExp).join('|')),
      )
    })

    test('that the platform fails to take are tried again later', async () => {
      const subject = await shared()
      subject.platform.failNext('error')
      const { status } = await send(subject, 'again', 'failed once')
      assert.ok([503, 504].includes(status), String(status))
      if (status === 503) {
        assert.equal((await send(subject, 'again', 'failed once')).status, 200)
        assert.equal(subject.platform.sent.length, 1)
      }
    })
  })
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
