// `svc serve` as a process: daemons together and apart, shutdown, and startup errors.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { connect } from 'node:net'
import { suite, test } from 'node:test'
import { DAEMON_NAMES } from '../../src/daemons/settings.ts'
import { sendRaw, statusOf } from '../support/served-host.ts'
import { type Instance, instance } from '../support/svc.ts'

const JSON_BODY = { 'Content-Type': 'application/json' }

async function bearerOf({ run }: Instance, sub: string, ...flags: string[]): Promise<string> {
  const { code, stdout, stderr } = await run('bearer', 'demo', sub, ...flags)
  assert.equal(code, 0, stderr)
  return stdout.trim()
}

suite('svc serve', { concurrency: true }, () => {
  test('runs all daemons in one process, applies a revoked grant at once, and shuts down cleanly', async (t) => {
    const demo = await instance(t)
    const served = await demo.serve()
    assert.deepEqual([...served.urls.keys()], [...DAEMON_NAMES])
    const door = served.urls.get('proxyd') ?? ''
    for (const [name, url] of served.urls) {
      for (const path of ['/health', '/openapi.json', '/metrics']) {
        const isGuarded = name === 'proxyd' && path === '/metrics'
        assert.equal((await fetch(url + path)).status, isGuarded ? 401 : 200, `${name}${path}`)
      }
    }
    await demo.run('group', 'demo', 'grant', 'github:1', '**')
    const bearer = await bearerOf(demo, 'github:1', '--folder', 'main')
    const headers = { Authorization: `Bearer ${bearer}` }
    const minted = await fetch(`${door}/v1/route_tokens/chat`, { method: 'POST', headers })
    assert.equal(minted.status, 201)
    const { token } = JSON.parse(await minted.text())
    await fetch(`${door}/chat/${token}/`, { headers })
    await demo.run('group', 'demo', 'ungrant', 'github:1', '**')
    assert.equal((await fetch(`${door}/v1/route_tokens/chat`, { method: 'POST', headers })).status, 403)

    const { code, stdout, stderr } = await served.stop()
    assert.equal(code, 0, stderr)
    assert.match(stdout, /^(\w+ http:\/\/127\.0\.0\.1:\d+\n){9}ready\n$/)
    const lines: { level: string; daemon: string }[] = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.deepEqual(
      lines.filter(({ level }) => level !== 'info'),
      [],
    )
    assert.equal(lines.filter(({ daemon }) => daemon === 'webd').length >= 3, true)
    for (const secret of [token, bearer, bearer.split('.')[2] ?? '']) assert.equal(stderr.includes(secret), false)
  })

  test('runs the front door in one process and routd in another', async (t) => {
    const demo = await instance(t)
    const back = await demo.serve(['routd', 'authd'])
    const front = await demo.serve(['proxyd'], { ROUTD_URL: back.urls.get('routd') ?? '' })
    assert.deepEqual([...front.urls.keys()], ['proxyd'])
    const door = front.urls.get('proxyd') ?? ''
    await demo.run('group', 'demo', 'grant', 'github:1', '**')
    const headers = { ...JSON_BODY, Authorization: `Bearer ${await bearerOf(demo, 'github:1')}` }
    const body = JSON.stringify({ seq: 5, match: 'room=x', target: 'main' })
    assert.equal((await fetch(`${door}/v1/routes`, { method: 'POST', headers, body })).status, 201)
    assert.match(await (await fetch(`${door}/v1/routes`, { headers })).text(), /"match":"room=x"/)
    assert.equal((await fetch(`${door}/v1/sessions`, { headers })).status, 503)
    assert.equal((await back.stop()).code, 0)
    const gone = await fetch(`${door}/v1/routes`, { headers })
    assert.equal(gone.status, 503)
    assert.equal(gone.headers.get('content-type'), 'application/problem+json')
    assert.equal((await front.stop()).code, 0)
  })

  test('finishes open requests on SIGTERM, refuses new ones, and exits with 0', async (t) => {
    const demo = await instance(t)
    const served = await demo.serve()
    const door = new URL(served.urls.get('proxyd') ?? '')
    await demo.run('group', 'demo', 'grant', 'github:1', '**')
    const bearer = await bearerOf(demo, 'github:1', '--folder', 'main')
    const body = JSON.stringify({ seq: 5, match: 'room=x', target: 'main' })
    const socket = connect(Number(door.port), door.hostname)
    await once(socket, 'connect')
    socket.write(
      `POST /v1/routes HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n` +
        `Authorization: Bearer ${bearer}\r\nExpect: 100-continue\r\n\r\n`,
    )
    // The 100 response shows that the server has read the headers.
    const [interim] = await once(socket, 'data')
    assert.match(String(interim), /^HTTP\/1\.1 100 /)
    const end = served.stop()
    // Wait until the signal has closed the listener.
    while (
      await fetch(new URL('/health', door), { headers: { Connection: 'close' } }).then(
        () => true,
        () => false,
      )
    );
    socket.write(body)
    const [answer] = await once(socket, 'data')
    assert.equal(statusOf(String(answer)), 201, String(answer))
    assert.equal((await end).code, 0)
  })

  test('reports a port in use, exits with 1, and leaves nothing behind', async (t) => {
    const demo = await instance(t)
    const served = await demo.serve(['routd'])
    const address = new URL(served.urls.get('routd') ?? '').host
    await assert.rejects(
      demo.serve([], { WEBD_LISTEN: address }),
      new RegExp(`svc: webd cannot listen on ${address}: the port is in use\\nhint: set WEBD_LISTEN`),
    )
    const { code, stdout } = await demo.run('serve', 'demo', 'wbed')
    assert.equal(code, 1)
    assert.equal(stdout, '')
  })

  test('keeps serving when the disk is full for the log, and shuts down on request', async (t) => {
    const demo = await instance(t)
    const full = openSync('/dev/full', 'w')
    t.after(() => closeSync(full))
    const served = await demo.serve(['proxyd', 'routd'], {}, full)
    const door = served.urls.get('proxyd') ?? ''
    for (let count = 0; count < 5; count++) assert.equal((await fetch(`${door}/nothing`)).status, 404)
    const { code } = await served.stop()
    assert.equal(code, 0)
  })

  test('rejects a smuggled request', async (t) => {
    const demo = await instance(t)
    const served = await demo.serve(['proxyd'])
    const door = served.urls.get('proxyd') ?? ''
    const head = 'POST /v1/routes HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n'
    const answer = await sendRaw(door, `${head}0\r\n\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n`)
    assert.equal(statusOf(answer), 400)
    assert.equal(answer.match(/HTTP\/1\.1 /g)?.length, 1)
    const { code, stderr } = await served.stop()
    assert.equal(code, 0)
    assert.deepEqual(stderr.match(/"status":\d+/g), ['"status":400'])
  })
})
