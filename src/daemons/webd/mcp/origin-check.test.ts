import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { originFault, type RequestOrigin } from './origin-check.ts'

const OURS = async (host: string): Promise<boolean> => host === 'pages.example'

async function faultOf(whence: Partial<RequestOrigin>, webBase = 'https://chat.example'): Promise<string | undefined> {
  const asked = { origin: undefined, host: 'chat.example', local: '10.0.0.1', ...whence }
  return (await originFault(webBase, asked, OURS))?.message
}

const FOREIGN = 'pages of another site cannot use these tools'
const UNKNOWN = 'unknown host name "evil.example:8080"'

suite('the origin of a request', () => {
  test('is absent, our own, or refused', async () => {
    const own: Partial<RequestOrigin>[] = [
      {},
      { origin: 'https://chat.example' },
      { origin: 'https://CHAT.example' },
      { origin: 'https://chat.example.' },
      { origin: 'http://10.0.0.1:8080', host: '10.0.0.1:8080' },
      { origin: 'https://chat.example', host: '127.0.0.1:8082', local: '127.0.0.1' },
    ]
    for (const whence of own) assert.equal(await faultOf(whence), undefined, JSON.stringify(whence))
    const foreign = [
      '',
      'null',
      'https://evil.example',
      'https://chat.example:444',
      'https://chat.example.evil.example',
      'https://evil.example/https://chat.example',
      'https://chat.example@evil.example',
      'chat.example',
      'file://chat.example',
      'chrome-extension://chat.example',
      'https://chat.example, https://evil.example',
    ]
    for (const origin of foreign) assert.equal(await faultOf({ origin }), FOREIGN, origin)
  })

  test('all names of this machine are equal at the same port', async () => {
    const at = (origin: string, host: string) => faultOf({ origin, host, local: '127.0.0.1' }, 'http://localhost:8080')
    const names = ['localhost', '127.0.0.1', '[::1]']
    for (const from of names) for (const to of names) assert.equal(await at(`http://${from}:81`, `${to}:81`), undefined)
    assert.equal(await at('http://127.0.0.1:8080', 'localhost:81'), undefined)
    assert.equal(await at('http://localhost:82', 'localhost:81'), FOREIGN)
  })

  test('on loopback, an unknown host name is refused as DNS rebinding', async () => {
    const origin = 'http://evil.example:8080'
    for (const local of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '127.9.9.9']) {
      assert.equal(await faultOf({ origin, host: 'evil.example:8080', local }), UNKNOWN)
      assert.equal(await faultOf({ host: 'evil.example:8080', local }), UNKNOWN)
      for (const host of ['chat.example', 'pages.example', 'localhost:1', '[::1]:1'])
        assert.equal(await faultOf({ host, local }), undefined, host)
    }
  })

  test('refuses pages of any other host', async () => {
    await fc.assert(
      fc.asyncProperty(fc.webAuthority(), async (authority) => {
        fc.pre(!/(^|@)chat\.example\.?(:443|:80)?$/i.test(authority))
        assert.equal(await faultOf({ origin: `https://${authority}` }), FOREIGN)
      }),
    )
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary' }), async (origin) => {
        assert.equal(await faultOf({ origin }), FOREIGN)
      }),
    )
  })
})
