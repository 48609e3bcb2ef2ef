import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { suite, test } from 'node:test'
import { deflateRawSync } from 'node:zlib'
import { type LinkHost, type MintedLink, openLinkHost } from '../../../test/support/link-host.ts'
import { chatFilePath, chatFiles, type ShownFile } from '../../core/files/chat-files.ts'

const png = (width: number, height: number): Buffer => {
  const head = Buffer.from('89504e470d0a1a0a0000000d4948445200000000000000000806000000', 'hex')
  head.writeUInt32BE(width, 16)
  head.writeUInt32BE(height, 20)
  return head
}
const POLYGLOT = Buffer.from('GIF89a/*\x01\0\x01\0*/=1;alert(document.domain)//<script>alert(1)</script>', 'latin1')
const LONG = `${'x'.repeat(300)}.txt`

interface Hostile {
  readonly name: string
  readonly content: Buffer
  readonly declared: string
  readonly shown?: string
  readonly type: string
  readonly kind: 'inline' | 'attachment'
}

const HOSTILE: readonly Hostile[] = [
  { name: 'a.png', content: png(8, 8), declared: 'text/html', type: 'image/png', kind: 'inline' },
  {
    name: 'huge.png',
    content: png(8000, 8000),
    declared: 'image/png',
    type: 'application/octet-stream',
    kind: 'attachment',
  },
  {
    name: 'cut.png',
    content: png(8, 8).subarray(0, 16),
    declared: '',
    type: 'application/octet-stream',
    kind: 'attachment',
  },
  {
    name: 'x.svg',
    content: Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'),
    declared: 'image/svg+xml',
    type: 'text/plain; charset=utf-8',
    kind: 'attachment',
  },
  {
    name: 'x.html',
    content: Buffer.from('<!doctype html><script>alert(1)</script>'),
    declared: 'text/html',
    type: 'text/plain; charset=utf-8',
    kind: 'attachment',
  },
  { name: 'page.gif', content: POLYGLOT, declared: 'text/html', type: 'image/gif', kind: 'inline' },
  {
    name: '../../../etc/passwd',
    shown: 'passwd',
    content: Buffer.from('a'),
    declared: '',
    type: 'text/plain; charset=utf-8',
    kind: 'attachment',
  },
  {
    name: 'a\u202egpj.exe',
    shown: 'agpj.exe',
    content: Buffer.from('MZ\x90\0', 'latin1'),
    declared: 'image/jpeg',
    type: 'application/octet-stream',
    kind: 'attachment',
  },
  {
    name: LONG,
    shown: `${'x'.repeat(238)}.txt`,
    content: Buffer.alloc(0),
    declared: '',
    type: 'text/plain; charset=utf-8',
    kind: 'attachment',
  },
  {
    name: 'bomb.zip',
    content: Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), deflateRawSync(Buffer.alloc(1_000_000))]),
    declared: '',
    type: 'application/zip',
    kind: 'attachment',
  },
]

async function upload(s: LinkHost, link: MintedLink, ...files: readonly Hostile[]): Promise<readonly ShownFile[]> {
  const body = new FormData()
  for (const { name, content, declared } of files)
    body.append('f', new File([new Uint8Array(content)], name, { type: declared }))
  const answer = await s.to(`POST ${link.chat}`, { body })
  assert.equal(answer.status, 200, answer.text)
  const { user } = answer.body as { user: { files: ShownFile[] } }
  return user.files
}

suite('a file of a chat', () => {
  test('is served with the type of its content, and no browser may run it', async (t) => {
    const s = await openLinkHost(t)
    const link = await s.mintChat()
    const files = await upload(s, link, ...HOSTILE)
    for (const [at, { name, shown = name, content, type, kind }] of HOSTILE.entries()) {
      const file = files[at] ?? assert.fail(name)
      assert.deepEqual([file.name, file.size], [shown, content.length])
      const response = await fetch(`${s.url('webd')}${link.chat}files/${file.id}`)
      const header = (of: string): string => response.headers.get(of) ?? ''
      assert.deepEqual([response.status, header('content-type')], [200, type], name)
      assert.deepEqual(Buffer.from(await response.arrayBuffer()), content, name)
      assert.equal(header('content-disposition').split(';')[0], kind, name)
      assert.equal(header('x-content-type-options'), 'nosniff')
      assert.equal(header('content-security-policy'), "default-src 'none'; sandbox; frame-ancestors 'none'")
      assert.equal(header('cross-origin-resource-policy'), 'cross-origin')
      assert.equal(header('cache-control'), 'private, max-age=86400, immutable')
    }
  })

  test('of a row with a name that shows something else is downloaded under a name that shows all of it', async (t) => {
    const s = await openLinkHost(t)
    const link = await s.mintChat()
    const plain = { name: 'a', content: Buffer.from('1'), declared: '', type: '', kind: 'attachment' } as const
    const [{ id = '' } = {}] = await upload(s, link, plain)
    const name = 'a.\u200bgpj\u061c.exe'
    await s.host.engine.transaction((tx) => chatFiles.update(tx, { id }, { name }))
    const { headers } = await s.to(`GET ${link.chat}files/${id}`)
    assert.match(headers.get('content-disposition') ?? '', /; filename="a\.gpj\.exe"; filename\*=UTF-8''a\.gpj\.exe$/)
    assert.equal(headers.get('vary'), 'Cookie, X-Visitor')
  })

  test('with the same name as another is another', async (t) => {
    const s = await openLinkHost(t)
    const same = { name: 'a', declared: '', type: '', kind: 'attachment' } as const
    const files = await upload(
      s,
      await s.mintChat(),
      { ...same, content: Buffer.from('1') },
      { ...same, content: Buffer.from('22') },
    )
    assert.deepEqual(
      files.map(({ name, size }) => [name, size]),
      [
        ['a', 1],
        ['a', 2],
      ],
    )
  })

  test('is sent in parts, and not again to a client that has it', async (t) => {
    const s = await openLinkHost(t)
    const link = await s.mintChat()
    const [file] = await upload(s, link, {
      name: 'a',
      content: Buffer.from('0123456789'),
      declared: '',
      type: '',
      kind: 'attachment',
    })
    const url = `GET ${link.chat}files/${file?.id}`
    const etag = (await s.to(url)).headers.get('etag') ?? ''
    assert.equal(etag, `"${file?.id}"`)
    const ask = async (headers: Record<string, string>, asked = url) => {
      const answer = await s.to(asked, { headers })
      return [answer.status, answer.text, answer.headers.get('content-range')]
    }
    assert.deepEqual(await ask({ 'If-None-Match': etag }), [304, '', null])
    assert.deepEqual(await ask({ 'If-None-Match': '"x"' }), [200, '0123456789', null])
    assert.deepEqual(await ask({ Range: 'bytes=2-4' }), [206, '234', 'bytes 2-4/10'])
    assert.deepEqual(await ask({ Range: 'bytes=-3' }), [206, '789', 'bytes 7-9/10'])
    assert.deepEqual(await ask({ Range: 'bytes=8-', 'If-Range': etag }), [206, '89', 'bytes 8-9/10'])
    assert.deepEqual(await ask({ Range: 'bytes=8-', 'If-Range': '"x"' }), [200, '0123456789', null])
    assert.deepEqual(await ask({ Range: 'bytes=0-1,3-4' }), [200, '0123456789', null])
    assert.deepEqual(await ask({ Range: 'bytes=10-' }), [416, '', 'bytes */10'])
    const head = await s.to(url.replace('GET', 'HEAD'))
    assert.deepEqual([head.status, head.text, head.headers.get('content-length')], [200, '', '10'])
  })

  test('is found only through a link of its chat, while the link exists', async (t) => {
    const s = await openLinkHost(t)
    await s.groups('other')
    const [link, suffix, other] = [
      await s.mintChat(),
      await s.mintChat({ jid_suffix: 'b' }),
      await s.mintChat({ folder: 'other' }),
    ]
    const [file] = await upload(s, link, {
      name: 'a',
      content: Buffer.from('1'),
      declared: '',
      type: '',
      kind: 'attachment',
    })
    const get = async ({ chat }: MintedLink, path = `files/${file?.id}`) => (await s.to(`GET ${chat}${path}`)).status
    assert.deepEqual([await get(link), await get(suffix), await get(other)], [200, 404, 404])
    for (const path of [
      'files/',
      'files/x',
      `files/${file?.id}/x`,
      `files/..%2f${file?.id}`,
      'files/../../x',
      `files/${file?.id}.txt`,
    ])
      assert.ok([404, 401].includes(await get(link, path)), path)
    assert.equal((await s.to(`POST ${link.chat}files/${file?.id}`)).status, 405)
    const { layout } = s.host
    const [row] = await s.host.engine.read((tx) => chatFiles.list(tx))
    assert.ok(layout && row)
    rmSync(chatFilePath(layout, row))
    assert.equal(await get(link), 404)
    await s.revoke(link)
    assert.equal(await get(link), 401)
  })
})
