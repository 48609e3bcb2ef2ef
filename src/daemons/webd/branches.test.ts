import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine } from '../../../test/support/host.ts'
import { json, type LinkHost, type MintedLink, openLinkHost, openStream } from '../../../test/support/link-host.ts'
import { until } from '../../../test/support/until.ts'
import { chatFilesDir } from '../../core/layout.ts'
import { visitorPart } from '../../core/links/visitor-chats.ts'

const ALL = ['webd', 'routd', 'gated', 'runed']
const UNKNOWN = '01990000-0000-7000-8000-000000000000'

interface BranchHost extends LinkHost {
  link: MintedLink
  post(body: object, headers?: Record<string, string>): ReturnType<LinkHost['to']>
  /** The events of a topic, each as `<content> in <topic>`; the end of a round as `end`. */
  read(topic: string, count: number, query?: string): Promise<string[]>
}

async function open(t: TestContext, engine: EngineName, command?: string): Promise<BranchHost> {
  const settings = command === undefined ? {} : { AGENT_RUNTIME: 'command', AGENT_COMMAND: command }
  const s = await openLinkHost(t, { engine, daemons: ALL, settings })
  const link = await s.mintChat()
  return {
    ...s,
    link,
    post: (body, headers) => s.to(`POST ${link.chat}`, json(body, headers)),
    read: async (topic, count, query = '') => {
      const stream = await openStream(t, `${s.url('webd')}${link.chat}events?topic=${topic}${query}`)
      await stream.count(count)
      stream.cut()
      return stream.events.map(({ event, data }) => {
        const { content, topic } = JSON.parse(data)
        return event === 'round_done' ? `end in ${topic}` : `${content} in ${topic}`
      })
    },
  }
}

onEveryEngine('branches', (engine) => {
  test('a branch continues the conversation before the message that it replaces', async (t) => {
    const s = await open(t, engine)
    const first = await s.speak(s.link, '/say A1', 'red')
    await s.ended(s.link, first)
    const second = await s.speak(s.link, '/say A2', 'red')
    await s.ended(s.link, second)

    const edited = await s.post({ content: '/say B2', topic: 'blue', branch_of: second })
    assert.equal(edited.status, 200, edited.text)
    assert.equal(edited.body.topic, 'blue')
    await s.ended(s.link, String(edited.body.turn_id))
    const before = ['/say A1 in red', 'A1 in red', 'end in red']
    const own = ['/say B2 in blue', 'B2 in blue', 'end in blue']
    assert.deepEqual(await s.read('blue', 6), [...before, ...own])
    assert.deepEqual(await s.read('red', 6), [...before, '/say A2 in red', 'A2 in red', 'end in red'])

    // Each event once, wherever the client resumes, and however few it asks for.
    for (let after = 0; after < 9; after++) {
      const rest = [...before, ...['', '', ''], ...own].slice(after).filter((line) => line !== '')
      assert.deepEqual(await s.read('blue', rest.length, `&after=${after}`), rest, `after ${after}`)
    }
    assert.deepEqual(await s.read('blue', 4, '&last=4'), [...before.slice(2), ...own])

    // Without content, the content of the message is used again, in a topic that the server names.
    const again = await s.post({ branch_of: second })
    assert.equal(again.status, 200, again.text)
    const { topic, user, turn_id } = again.body
    assert.equal((user as Record<string, unknown>).content, '/say A2')
    await s.ended(s.link, String(turn_id))
    assert.deepEqual(await s.read(String(topic), 6), [
      ...before,
      `/say A2 in ${topic}`,
      `A2 in ${topic}`,
      `end in ${topic}`,
    ])

    // A form, and a branch of a branch.
    const form = await s.to(`POST ${s.link.chat}`, {
      body: new URLSearchParams({ content: '/say C', topic: 'green', branch_of: String(edited.body.turn_id) }),
    })
    assert.equal(form.status, 200, form.text)
    await s.ended(s.link, String(form.body.turn_id))
    assert.deepEqual(await s.read('green', 6), [...before, '/say C in green', 'C in green', 'end in green'])
  })

  test('a branch without files has those of the message that it replaces, until its topic is deleted', async (t) => {
    const s = await open(t, engine)
    const link = await s.mintChat({ jid_suffix: 'apart', visitors: 'apart' })
    const headers = { 'X-Visitor': 'A'.repeat(43) }
    const body = new FormData()
    for (const [name, value] of Object.entries({ content: '/say A', topic: 'red' })) body.append(name, value)
    body.append('file', new Blob(['a line\n']), 'note.txt')
    const posted = await s.to(`POST ${link.chat}`, { body, headers })
    const turn = String(posted.body.turn_id)
    await until(async () => (await s.to(`GET ${link.chat}${turn}`, { headers })).body.status !== 'pending')
    const branches = []
    for (const content of [undefined, '/say B'])
      branches.push(await s.to(`POST ${link.chat}`, json({ content, branch_of: turn }, headers)))
    const files = [posted, ...branches].flatMap(({ body }) => (body.user as { files: { id: string }[] }).files)
    assert.equal(new Set(files.map(({ id }) => id)).size, 3)
    const read = async ({ id }: { id: string }): Promise<unknown> => {
      const { status, text } = await s.to(`GET ${link.chat}files/${id}`, { headers })
      return status === 200 ? text : status
    }
    assert.deepEqual(await Promise.all(files.map(read)), ['a line\n', 'a line\n', 'a line\n'])
    for (const { body } of branches) {
      const path = `GET ${link.chat}${body.turn_id}`
      await until(async () => (await s.to(path, { headers })).body.status !== 'pending')
    }
    const directory = chatFilesDir(s.host.layout ?? assert.fail(), {
      folder: 'main',
      jid: `${link.jid}${visitorPart(headers['X-Visitor'])}`,
    })
    assert.equal(readdirSync(directory).length, 3)
    // Of two posts that are one, only one has files.
    const twice = json({ content: '/say C', branch_of: turn }, { ...headers, 'Idempotency-Key': 'k' })
    const same = await Promise.all([1, 2].map(() => s.to(`POST ${link.chat}`, twice)))
    assert.equal(same[0]?.body.turn_id, same[1]?.body.turn_id)
    assert.equal(readdirSync(directory).length, 4)
    await until(async () => {
      const { body } = await s.to(`GET ${link.chat}${same[0]?.body.turn_id}`, { headers })
      return body.status !== 'pending'
    })
    assert.equal((await s.to(`DELETE ${link.chat}topics/red`, { headers })).status, 204)
    assert.deepEqual(await Promise.all(files.map(read)), [404, 404, 404])
    assert.ok(!existsSync(directory))
  })

  test('refuses a branch of nothing, of an answer, of another chat, and a topic that exists', async (t) => {
    const s = await open(t, engine)
    const turn = await s.speak(s.link, '/say A', 'red')
    const { frames } = await s.ended(s.link, turn)
    const [answer] = frames as { id: string }[]
    const other = await s.mintChat({ jid_suffix: 'other' })
    const foreign = await s.speak(other, '/say X')
    const stored = (await s.messages()).length
    for (const [body, status, detail] of [
      [{ content: 'x', branch_of: UNKNOWN }, 404, /no such message to start a branch from/],
      [{ content: 'x', branch_of: answer?.id }, 404, /no such message/],
      [{ content: 'x', branch_of: foreign }, 404, /no such message/],
      [{ content: 'x', branch_of: 'x' }, 400, /branch_of must be the id of a message/],
      [{ content: 'x', branch_of: 7 }, 400, /branch_of must be the id of a message/],
      [{ content: '', branch_of: turn }, 400, /content must not be empty/],
      [{ content: 'x', branch_of: turn, topic: 'red' }, 409, /there is a topic with this name/],
    ] as const) {
      const answer = await s.post(body)
      assert.equal(answer.status, status, answer.text)
      assert.match(String(answer.body.detail), detail)
    }
    const now = await s.messages()
    assert.equal(now.filter(({ direction }) => direction === 'in').length, 2)
    assert.ok(now.length <= stored + 1)
  })

  test('a repeat with the same key gets the same branch', async (t) => {
    const s = await open(t, engine)
    const turn = await s.speak(s.link, '/say A', 'red')
    await s.ended(s.link, turn)
    const headers = { 'Idempotency-Key': 'k1' }
    const [one, two] = [await s.post({ branch_of: turn }, headers), await s.post({ branch_of: turn }, headers)]
    assert.equal(one.status, 200, one.text)
    assert.deepEqual(two.body, one.body)
    const named = { branch_of: turn, content: 'x', topic: 'blue' }
    const keyed = { 'Idempotency-Key': 'k2' }
    assert.deepEqual((await s.post(named, keyed)).body, (await s.post(named, keyed)).body)
    assert.equal((await s.post({ ...named, content: 'y' }, { 'Idempotency-Key': 'k3' })).status, 409)
  })

  test('the first turn of a branch shows the earlier part as context, to visitors too', async (t) => {
    const s = await open(t, engine, 'cat')
    const ask = async (body: object): Promise<string> => {
      const { body: posted, text, status } = await s.post(body)
      assert.equal(status, 200, text)
      const { frames } = await s.ended(s.link, String(posted.turn_id))
      turn = String(posted.turn_id)
      return (frames as { content: string }[])[0]?.content ?? ''
    }
    let turn = ''
    await ask({ content: 'my name is Ada', topic: 'red' })
    await ask({ content: 'what is my nam', topic: 'red' })
    const edited = await ask({ content: 'what is my name', topic: 'blue', branch_of: turn })
    assert.match(edited, /<rule>Rows marked observed are context, not requests/)
    assert.match(edited, /<observed [^>]*source="this conversation">my name is Ada<\/observed>/)
    assert.match(edited, /<system origin="gateway" event="branch">The person edited an earlier message/)
    assert.match(edited, />what is my name<\/message>/)
    assert.doesNotMatch(edited, /what is my nam</)
    const again = await ask({ branch_of: turn })
    assert.match(again, /event="branch">The person wants another answer to this message/)
    assert.equal(again.match(/<observed/g)?.length, 2)
    assert.doesNotMatch(await ask({ content: 'more', topic: 'blue' }), /<observed|event="branch"/)
  })
})
