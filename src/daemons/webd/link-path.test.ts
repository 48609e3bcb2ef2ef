import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { parseLinkPath } from './link-path.ts'

suite('the paths of links', () => {
  test('are split at the slash after the token and at the question mark', () => {
    const read = (url: string): unknown[] => {
      const { kind, token, rest, query } = parseLinkPath(url) ?? assert.fail(url)
      return [kind, token, rest, query]
    }
    assert.deepEqual(read('/hook/t'), ['hook', 't', undefined, ''])
    assert.deepEqual(read('/hook/t?a=/b'), ['hook', 't', undefined, 'a=/b'])
    assert.deepEqual(read('/hook/t/'), ['hook', 't', '', ''])
    assert.deepEqual(read('/hook/t/more/and?x'), ['hook', 't', 'more/and', 'x'])
    assert.deepEqual(read('/chat/t/'), ['chat', 't', '', ''])
    assert.deepEqual(read('/chat/t/id/sse?after=1?2'), ['chat', 't', 'id/sse', 'after=1?2'])
    assert.deepEqual(read('/chat/'), ['chat', '', undefined, ''])
    assert.deepEqual(read('/chat//t'), ['chat', '', 't', ''])
    assert.deepEqual(read('/chat/?'), ['chat', '', undefined, ''])
  })

  test('nothing else is a link', () => {
    for (const url of [
      '',
      '/',
      '/chat',
      '/hook',
      '/Chat/t',
      '//chat/t',
      '/./hook/t',
      '/%63hat/t',
      '/chatx/t',
      'hook/t',
    ])
      assert.equal(parseLinkPath(url), undefined, url)
  })

  test('are neither decoded nor normalized: the joined parts are the URL', () => {
    const piece = fc.oneof(
      fc.constantFrom('/', '?', '%2F', '%2e%2e', '..', '.', '//', '%00', '+', '=', '\\', '#', ';'),
      fc.string({ unit: 'binary' }),
    )
    const start = fc.constantFrom('/hook/', '/chat/')
    fc.assert(
      fc.property(start, fc.array(piece), (before, pieces) => {
        const url = before + pieces.join('')
        const path = parseLinkPath(url)
        assert.ok(path)
        assert.ok(!path.token.includes('/') && !path.token.includes('?') && !path.rest?.includes('?'))
        const mark = url.includes('?') ? '?' : ''
        const rest = path.rest === undefined ? '' : `/${path.rest}`
        assert.equal(`/${path.kind}/${path.token}${rest}${mark}${path.query}`, url)
      }),
    )
  })

  test('any URL is handled', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (url) => {
        const path = parseLinkPath(url)
        assert.equal(path !== undefined, /^\/(hook|chat)\//.test(url))
      }),
    )
  })
})
