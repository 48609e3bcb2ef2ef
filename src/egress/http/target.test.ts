import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { OK, openHttpParts, openReplyingOrigin, sendRequest } from '../../../test/support/http-fixture.ts'
import { type RequestHead, readRequestHead } from './head.ts'
import { forwardTarget, transparentTarget } from './target.ts'

function headOf(line: string, host?: string): RequestHead {
  const field = host === undefined ? '' : `Host: ${host}\r\n`
  const result = readRequestHead(Buffer.from(`${line}\r\n${field}\r\n`, 'latin1'))
  assert.equal(result.kind, 'head', line)
  return result.head
}

suite('the target of a request on the forward port', () => {
  const CASES: readonly [line: string, host: string | undefined, expected: string][] = [
    ['GET http://a.test/x?y HTTP/1.1', 'a.test', 'a.test 80 /x?y a.test'],
    ['GET http://A.TEST.:80 HTTP/1.1', 'other', 'a.test 80 / a.test'],
    ['GET http://a.test:8080?q HTTP/1.1', 'a.test', 'a.test 8080 /?q a.test:8080'],
    ['GET http://[::1]:81/ HTTP/1.0', undefined, '::1 81 / [::1]:81'],
    ['OPTIONS http://a.test HTTP/1.1', 'a.test', 'a.test 80 * a.test'],
    ['OPTIONS http://a.test/ HTTP/1.1', 'a.test', 'a.test 80 / a.test'],
    ['GET /x HTTP/1.1', 'a.test', 'not-a-proxy-request'],
    ['GET a.test:80 HTTP/1.1', 'a.test', 'not-a-proxy-request'],
    ['OPTIONS * HTTP/1.1', 'a.test', 'not-a-proxy-request'],
    ['GET https://a.test/ HTTP/1.1', 'a.test', 'bad-request'],
    ['GET HTTPS://a.test/ HTTP/1.1', 'a.test', 'bad-request'],
    ['GET gopher://a.test/ HTTP/1.1', 'a.test', 'bad-request'],
    ['GET http:///x HTTP/1.1', 'a.test', 'bad-request'],
    ['GET http://a.test:0/ HTTP/1.1', 'a.test', 'bad-request'],
    ['GET http://u@a.test/ HTTP/1.1', 'a.test', 'bad-request'],
    ['GET http://a.test/#f HTTP/1.1', 'a.test', 'bad-request'],
    ['GET http://a.test/ HTTP/1.1', 'a.test, b.test', 'bad-request'],
  ]
  for (const [line, host, expected] of CASES) {
    test(`${line} with Host ${host}: ${expected}`, () => {
      const target = forwardTarget(headOf(line, host))
      const shown =
        'code' in target ? target.code : `${target.host.text} ${target.port} ${target.path} ${target.authority}`
      assert.equal(shown, expected)
    })
  }
})

suite('the target of a request on the transparent port', () => {
  const CASES: readonly [name: string, line: string, host: string | undefined, expected: string][] = [
    ['the Host field', 'GET /x HTTP/1.1', 'a.test', 'a.test 80 /x a.test'],
    ['a port in the Host field', 'GET /x HTTP/1.1', 'a.test:80', 'a.test 80 /x a.test'],
    ['another port is not dialled', 'GET /x HTTP/1.1', 'a.test:8080', 'a.test 80 /x a.test:8080'],
    ['HTTP/1.0 with Host', 'GET /x HTTP/1.0', 'A.test', 'a.test 80 /x a.test'],
    ['HTTP/1.0 without Host', 'GET /x HTTP/1.0', undefined, 'bad-request'],
    ['an empty Host', 'GET /x HTTP/1.1', '', 'bad-request'],
    ['two names', 'GET /x HTTP/1.1', 'a.test b.test', 'bad-request'],
    ['OPTIONS *', 'OPTIONS * HTTP/1.1', 'a.test', 'a.test 80 * a.test'],
    ['* of another method', 'GET * HTTP/1.1', 'a.test', 'bad-request'],
    ['an absolute target that matches', 'GET http://A.test/x HTTP/1.1', 'a.test:80', 'a.test 80 /x a.test'],
    ['an absolute target with another name', 'GET http://b.test/x HTTP/1.1', 'a.test', 'bad-request'],
    ['an absolute target with another port', 'GET http://a.test:81/x HTTP/1.1', 'a.test', 'bad-request'],
    ['https', 'GET https://a.test/x HTTP/1.1', 'a.test', 'bad-request'],
    ['a fragment', 'GET /x#y HTTP/1.1', 'a.test', 'bad-request'],
  ]
  for (const [name, line, host, expected] of CASES) {
    test(name, () => {
      const target = transparentTarget(headOf(line, host))
      const shown =
        'code' in target ? target.code : `${target.host.text} ${target.port} ${target.path} ${target.authority}`
      assert.equal(shown, expected)
    })
  }

  test('checks the second Host on a connection on its own and refuses CONNECT with 400', async (t) => {
    const origin = await openReplyingOrigin(t, OK)
    const targetOf = (head: RequestHead) => transparentTarget(head, origin.port)
    const fixture = await openHttpParts(t, { mode: 'transparent-http', readTarget: targetOf })
    const answer = await sendRequest(
      fixture,
      'GET / HTTP/1.1\r\nHost: allowed.test:80\r\n\r\nGET / HTTP/1.1\r\nHost: denied.test\r\n\r\n' +
        'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    )
    assert.deepEqual(answer.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 403', 'HTTP/1.1 400'])
    assert.equal(fixture.records[0]?.mode, 'transparent-http')
  })
})
