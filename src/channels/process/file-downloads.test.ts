import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { openLog } from '../../lib/log/log.ts'
import { type FetchFile, FileDownloads, readAtMost } from './file-downloads.ts'
import { type InboundEvent, PlatformError } from './port.ts'

const FILE = { name: 'a.txt', mime: 'text/plain' }
const setUp = async (fetch: FetchFile<typeof FILE>, timeoutMs?: number) => {
  const limits = { pauseMs: 1, ...(timeoutMs === undefined ? {} : { timeoutMs }) }
  const stored: InboundEvent[] = []
  const stop = new AbortController()
  const log = await openLog({ to: { write: () => undefined } })
  const receive = async (event: InboundEvent) => {
    stored.push(event)
    return 'stored' as const
  }
  return { stored, stop, downloads: new FileDownloads({ receive, signal: stop.signal, log }, fetch, limits) }
}
const GONE = 'see\n[the file a.txt is too large to receive, or gone]'
const see = { chat_jid: 'x:1', content: 'see' }

suite('files of an event', () => {
  test('are tried again, but not after a refusal', async () => {
    let attempts = 0
    const { downloads, stored } = await setUp(async () => {
      if (attempts++ === 0) throw new Error('broken')
      if (attempts === 2) return Buffer.from('text')
      throw new PlatformError('refused', 'gone')
    })
    await downloads.storeWith(see, [FILE])
    await downloads.storeWith(see, [FILE])
    assert.equal(stored[0]?.attachments?.[0]?.data?.toString(), 'text')
    assert.deepEqual([stored[1]?.content, attempts], [GONE, 3])
  })

  test('are tried a few times at a server that answers, and longer over a broken connection', async () => {
    let attempts = 0
    const answering = await setUp(async () => {
      attempts++
      throw new PlatformError('unavailable', 'status 500')
    })
    await answering.downloads.storeWith(see, [FILE])
    assert.deepEqual([answering.stored[0]?.content, attempts], [GONE, 4])
    const broken = await setUp(async () => {
      if (++attempts < 12) throw new Error('fetch failed')
      return Buffer.from('text')
    })
    await broken.downloads.storeWith(see, [FILE])
    assert.equal(broken.stored[0]?.attachments?.[0]?.data?.toString(), 'text')
  })

  test('that never end do not hold up others for ever', async () => {
    const hang: FetchFile<typeof FILE> = (_, __, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    const { downloads, stored } = await setUp(hang, 50)
    const files = Array.from({ length: 50 }, () => FILE)
    await Promise.all([downloads.storeWith({ ...see }, files), downloads.storeWith(see, [FILE])])
    assert.deepEqual([stored.length, stored[1]?.content], [2, GONE])
  })

  test('stay at the platform when the process stops', async () => {
    const { downloads, stored, stop } = await setUp(async () => {
      stop.abort()
      throw new Error('broken')
    })
    await assert.rejects(downloads.storeWith(see, [FILE]))
    assert.equal(stored.length, 0)
  })

  test('are not read beyond the limit', async () => {
    assert.equal(await readAtMost(new Response('x'.repeat(11)), 10), undefined)
    assert.equal((await readAtMost(new Response('x'.repeat(10)), 10))?.length, 10)
  })
})
