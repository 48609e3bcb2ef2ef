import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type ChatTools, chatTools, OTHER_ROOM, ROOM } from '../../test/support/chat-tools.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { startTurn } from '../../test/support/turns.ts'
import { ChannelError } from '../core/delivery/channel.ts'
import { chatFilePath, chatFiles } from '../core/files/chat-files.ts'
import { chatDir } from '../core/layout.ts'
import { storedBytes } from '../core/links/storage-use.ts'
import { fileTools } from './file.ts'

const UNSENDABLE = /does not exist, or is not a file that you can send$/

/** Staged copies that are not delivered yet. */
function stagedCopies({ home }: ChatTools): string[] {
  const dir = join(home, '..', '..', 'outbox')
  return existsSync(dir) ? readdirSync(dir) : []
}

onEveryEngine('sending files', (engine) => {
  test('passes a copy of the file, its caption and the thread to the platform, and deletes the copy afterwards', async (t) => {
    const here = await chatTools(t, engine, fileTools)
    await startTurn(t, here, { folder: 'team', jid: ROOM, topic: 't7' })
    writeFileSync(join(here.home, 'report.pdf'), 'first words')
    let sent = ''
    here.fake.next(({ given }) => {
      // Changing the file now does not change the copy.
      writeFileSync(join(here.home, 'report.pdf'), 'something else')
      sent = readFileSync(String(given.path), 'utf8')
    })
    const tools = await here.tools()
    const args = { chatJid: ROOM, filepath: '/home/node/report.pdf', caption: 'as requested' }
    assert.equal(await tools.call('send_file', args), 'ok')
    assert.equal(sent, 'first words')
    const [call] = here.fake.calls
    assert.deepEqual(
      [call?.given.filename, call?.given.caption, call?.given.threadId, String(call?.given.path).endsWith('.pdf')],
      ['report.pdf', 'as requested', 't7', true],
    )
    assert.deepEqual(
      (await here.said()).map(({ content, action, state, platform_id }) => [content, action, state, platform_id]),
      [['as requested', 'send_file', 'sent', 'fake-1']],
    )
    assert.deepEqual(stagedCopies(here), [])
  })

  test('stores a copy for the visitors of a link, with the message', async (t) => {
    const here = await chatTools(t, engine, fileTools)
    const jid = await here.mintChat()
    writeFileSync(join(here.home, 'report.pdf'), '%PDF-1.7 first words')
    const tools = await here.tools()
    const args = { chatJid: jid, filepath: '/home/node/report.pdf' }
    assert.equal(await tools.call('send_file', { ...args, caption: 'as requested' }), 'ok')
    writeFileSync(join(here.home, 'report.pdf'), 'something else')
    assert.equal(await tools.call('send_file', { ...args, filename: 'b.txt' }), 'ok')
    assert.deepEqual(
      (await here.said()).map(({ content, state }) => [content, state]),
      [
        ['as requested', 'sent'],
        ['', 'sent'],
      ],
    )
    const files = await here.host.engine.read((tx) => chatFiles.list(tx, {}, [['message_seq', 'asc']]))
    assert.deepEqual(
      files.map(({ name, type, size, folder }) => [name, type, size, folder]),
      [
        ['report.pdf', 'application/pdf', 20, 'team'],
        ['b.txt', 'text/plain', 14, 'team'],
      ],
    )
    const { layout } = here.host
    assert.ok(layout && files[0])
    assert.equal(readFileSync(chatFilePath(layout, files[0]), 'utf8'), '%PDF-1.7 first words')
    assert.equal(await here.host.engine.read((tx) => storedBytes(tx, 'folder', 'team')), 34)
    assert.deepEqual(stagedCopies(here), [])
  })

  test('refuses a file of a link that is too large or exceeds the quota of the folder, and leaves nothing', async (t) => {
    const here = await chatTools(t, engine, fileTools)
    const jid = await here.mintChat()
    writeFileSync(join(here.home, 'a'), 'x')
    truncateSync(join(here.home, 'a'), 50 * 1024 * 1024 + 1)
    const tools = await here.tools()
    const args = { chatJid: jid, filepath: '/home/node/a' }
    assert.match(await tools.refusal('send_file', args), /the file is larger than 50 MiB/)
    truncateSync(join(here.home, 'a'), 1000)
    Object.assign(here.host.limits, { folderQuotaBytes: 999 })
    assert.match(await tools.refusal('send_file', args), /team accepts no more messages: its storage is full/)
    assert.deepEqual([await here.said(), existsSync(here.host.layout?.files ?? '')], [[], false])
  })

  test('records the file name if there is no caption, and sends empty files', async (t) => {
    const here = await chatTools(t, engine, fileTools)
    writeFileSync(join(here.home, 'empty'), '')
    const tools = await here.tools()
    const args = { chatJid: ROOM, filepath: '/home/node/empty', filename: 'nothing.txt', caption: '' }
    await tools.call('send_file', args)
    assert.deepEqual(
      (await here.said()).map(({ content }) => content),
      ['[file: nothing.txt]'],
    )
    assert.deepEqual(
      [here.fake.calls[0]?.given.filename, here.fake.calls[0]?.given.caption],
      ['nothing.txt', undefined],
    )
  })

  test('keeps the copy until it is delivered or failed', async (t) => {
    const here = await chatTools(t, engine, fileTools)
    writeFileSync(join(here.home, 'a'), 'x')
    const tools = await here.tools()
    here.fake.next(new ChannelError('permanent', 'never'))
    assert.equal(await tools.refusal('send_file', { chatJid: ROOM, filepath: '/home/node/a' }), 'never')
    assert.equal(stagedCopies(here).length, 0)
    here.fake.next(new ChannelError('transient', 'later'))
    assert.equal(await tools.call('send_file', { chatJid: ROOM, filepath: '/home/node/a' }), 'ok')
    assert.equal(stagedCopies(here).length, 1)
    // Copies left behind by a dead process are deleted after some days.
    here.clock.advance(3 * 24 * 3_600_000)
    await tools.call('send_file', { chatJid: ROOM, filepath: '/home/node/a' })
    assert.equal(stagedCopies(here).length, 0)
  })

  test('publishes a post with files of the workspace and returns its id', async (t) => {
    const here = await chatTools(t, engine, fileTools)
    for (const name of ['a.png', 'b.png']) writeFileSync(join(here.home, name), name)
    const seen: string[] = []
    here.fake.next(({ given }) => {
      assert.ok(Array.isArray(given.media))
      for (const path of given.media) seen.push(readFileSync(path, 'utf8'))
    })
    const tools = await here.tools()
    const media = ['/home/node/a.png', '/home/node/b.png']
    assert.deepEqual(await tools.call('post', { chatJid: ROOM, content: 'look', media }), { ok: true, id: 'fake-1' })
    assert.deepEqual(seen, ['a.png', 'b.png'])
    assert.deepEqual(here.fake.calls[0]?.given.mediaNames, ['a.png', 'b.png'])
    assert.deepEqual(await tools.call('post', { chatJid: ROOM, content: 'only words' }), { ok: true, id: 'fake-2' })
    assert.deepEqual(stagedCopies(here), [])
  })

  test('returns the message id of svc if the platform gives none', async (t) => {
    const here = await chatTools(t, engine, fileTools, { tellsIds: false })
    const reply = await (await here.tools()).call('post', { chatJid: ROOM, content: 'hello' })
    assert.deepEqual(reply, { ok: true, id: (await here.said())[0]?.id })
  })

  test('refuses a bad path and records nothing', async (t) => {
    const here = await chatTools(t, engine, fileTools)
    mkdirSync(join(here.home, 'folder'))
    symlinkSync('/etc/hosts', join(here.home, 'out'))
    execFileSync('mkfifo', [join(here.home, 'pipe')])
    writeFileSync(join(here.home, '.env'), 'KEY=1')
    const tools = await here.tools()
    const bad: [string, RegExp][] = [
      ['report.pdf', /filepath must be below \/home\/node\//],
      ['/home/node', /filepath/],
      ['~/x', /filepath/],
      ['/etc/hosts', /filepath/],
      ['/home/node/../../store/svc.db', UNSENDABLE],
      ['/home/node/a\nb', /control characters/],
      ['/home/node/.env', /keys/],
      ['/home/node/out', UNSENDABLE],
      ['/home/node/folder', /not a regular file/],
      ['/home/node/pipe', /not a regular file/],
      ['/home/node/missing', UNSENDABLE],
    ]
    for (const [filepath, why] of bad) {
      assert.match(await tools.refusal('send_file', { chatJid: ROOM, filepath }), why, filepath)
      const media = [filepath]
      assert.ok(await tools.refusal('post', { chatJid: ROOM, content: 'x', media }), filepath)
    }
    writeFileSync(join(here.home, 'a'), 'x')
    const file = { chatJid: ROOM, filepath: '/home/node/a' }
    for (const [args, why] of [
      [{ ...file, filename: 'a\nb' }, /filename/],
      [{ ...file, filename: '../a' }, /filename/],
      [{ ...file, filename: '' }, /filename/],
      [{ ...file, caption: 'x'.repeat(4097) }, /caption/],
      [{ ...file, replyToId: 'x' }, /unknown field "replyToId"/],
      [{ chatJid: ROOM }, /filepath/],
    ] as const)
      assert.match(await tools.refusal('send_file', args), why)
    for (const [args, why] of [
      [{ chatJid: ROOM, content: '' }, /content/],
      [{ chatJid: ROOM, content: 'x', media: 'a' }, /media/],
      [{ chatJid: ROOM, content: 'x', media: Array(11).fill('/home/node/a') }, /media/],
    ] as const)
      assert.match(await tools.refusal('post', args), why)
    assert.deepEqual([(await here.said()).length, here.fake.calls.length, stagedCopies(here).length], [0, 0, 0])
  })

  test('checks access before it opens the file', async (t) => {
    const here = await chatTools(t, engine, fileTools)
    const tools = await here.tools()
    const filepath = '/home/node/missing'
    assert.match(await tools.refusal('send_file', { chatJid: OTHER_ROOM, filepath }), /outside team/)
    assert.match(await tools.refusal('post', { chatJid: OTHER_ROOM, content: 'x', media: [filepath] }), /outside team/)
    await here.grant('folder:team', 'mcp:send_file', 'team', 'deny', `jid=${ROOM}`)
    await here.grant('folder:team', 'mcp:post', 'team', 'deny', `jid=${ROOM}`)
    assert.match(await tools.refusal('send_file', { chatJid: ROOM, filepath }), /not permitted/)
    assert.match(await tools.refusal('post', { chatJid: ROOM, content: 'x', media: [filepath] }), /not permitted/)
  })

  test('sends files in a visitors’ turn only from the directory of the chat and from the public directory', async (t) => {
    const here = await chatTools(t, engine, fileTools)
    const layout = here.host.layout ?? assert.fail('no layout')
    const { id, fence } = await startTurn(t, here, { folder: 'team', jid: ROOM })
    const tools = await here.tools('team', { turn: { id, fence }, reach: 'chat' })
    const mine = chatDir(layout, { folder: 'team', jid: ROOM, reach: 'chat' })
    const theirs = chatDir(layout, { folder: 'team', jid: OTHER_ROOM, reach: 'chat' })
    for (const directory of [mine, theirs, join(here.home, 'public')]) mkdirSync(directory, { recursive: true })
    for (const [path, text] of [
      [join(mine, 'made.txt'), 'made'],
      [join(theirs, 'theirs.txt'), 'theirs'],
      [join(here.home, 'public/form.pdf'), 'form'],
      [join(here.home, 'private.txt'), 'private'],
      [join(mine, '.env'), 'KEY=1'],
    ] as const)
      writeFileSync(path, text)
    symlinkSync('../private.txt', join(here.home, 'public/out'))
    symlinkSync(join(theirs, 'theirs.txt'), join(mine, 'out'))
    symlinkSync(join(theirs, 'missing.txt'), join(mine, 'nowhere'))
    const sent: string[] = []
    const keep = ({ given }: { given: Record<string, unknown> }): void =>
      void sent.push(readFileSync(String(given.path), 'utf8'))
    for (const filepath of ['/home/chat/made.txt', '/home/node/public/form.pdf']) {
      here.fake.next(keep)
      assert.equal(await tools.call('send_file', { chatJid: ROOM, filepath }), 'ok')
    }
    assert.deepEqual(sent, ['made', 'form'])
    const only = 'in a chat with visitors, files are sent from /home/chat/ or /home/node/public/ only'
    const bad: [string, string][] = [
      ['/home/node/private.txt', `/home/node/private.txt: ${only}`],
      ['/home/node/PERSONA.md', `/home/node/PERSONA.md: ${only}`],
      ['/home/node/publicity/x', `/home/node/publicity/x: ${only}`],
      ...[
        ...['/home/node/public/../private.txt', '/home/node/public/../missing', '/home/node/public/out'],
        ...['/home/node/public/missing', '/home/chat/out', '/home/chat/nowhere', '/home/chat/missing'],
      ].map((path): [string, string] => [path, `${path} does not exist, or is not a file that you can send`]),
    ]
    for (const [filepath, sentence] of bad) {
      assert.equal(await tools.refusal('send_file', { chatJid: ROOM, filepath }), sentence)
      assert.equal(await tools.refusal('post', { chatJid: ROOM, content: 'x', media: [filepath] }), sentence)
    }
    assert.match(await tools.refusal('send_file', { chatJid: ROOM, filepath: '/home/chat/.env' }), /keys/)
    assert.match(await tools.refusal('send_file', { chatJid: ROOM, filepath: '/home/chat' }), /must be below/)
    assert.deepEqual([here.fake.calls.length, stagedCopies(here)], [2, []])
    // A turn of reach work has a directory of its own for the same chat, and the whole workspace.
    const work = await here.tools('team', { turn: { id, fence }, reach: 'work' })
    const made = { chatJid: ROOM, filepath: '/home/chat/made.txt' }
    assert.match(await work.refusal('send_file', made), /^\/home\/chat\/made\.txt does not exist/)
    const atWork = chatDir(layout, { folder: 'team', jid: ROOM, reach: 'work' })
    mkdirSync(atWork, { recursive: true })
    writeFileSync(join(atWork, 'made.txt'), 'at work')
    assert.equal(await work.call('send_file', made), 'ok')
    assert.equal(await work.call('send_file', { chatJid: ROOM, filepath: '/home/node/private.txt' }), 'ok')
    // Any other turn sends from its workspace and has no chat directory.
    const own = await here.tools('team', { turn: { id, fence }, reach: 'all' })
    assert.equal(await own.call('send_file', { chatJid: ROOM, filepath: '/home/node/private.txt' }), 'ok')
    assert.equal(
      await own.refusal('send_file', { chatJid: ROOM, filepath: '/home/chat/made.txt' }),
      '/home/chat/made.txt must be below /home/node/',
    )
  })

  test('refuses a chat without support for posts with a hint, and records nothing', async (t) => {
    const here = await chatTools(t, engine, fileTools, { lacks: ['post'] })
    const tools = await here.tools()
    assert.equal(
      await tools.refusal('post', { chatJid: ROOM, content: 'x' }),
      'unsupported: post on fake\nhint: instead of post, use send(chatJid, text)',
    )
    assert.match(
      await tools.refusal('post', { chatJid: 'web:team', content: 'x' }),
      /^unsupported: post on web\nhint: .*send_file\(chatJid, filepath\)/,
    )
    assert.deepEqual([(await here.said()).length, stagedCopies(here).length], [0, 0])
  })
})
