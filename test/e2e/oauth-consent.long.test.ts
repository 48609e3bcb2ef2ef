// The consent page in Chromium: its policy lets the form end at the program's redirect, and nowhere else.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { suite, type TestContext, test } from 'node:test'
import { visitor } from '../support/browser.ts'
import { needs } from '../support/needs.ts'
import { authorization } from '../support/oauth.ts'
import { serveHost } from '../support/served-host.ts'
import { signIn } from '../support/sign-in.ts'

/** A program that waits for its code on loopback; resolves with the URL of the browser's request. */
async function openCallback(t: TestContext, host: string): Promise<{ port: number; answer: Promise<URL> }> {
  const { promise: answer, resolve } = Promise.withResolvers<URL>()
  const server = createServer((request, response) => {
    resolve(new URL(request.url ?? '', 'http://callback'))
    response.setHeader('Content-Type', 'text/html').end('<h1>Done</h1>')
  })
  server.listen(0, host)
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  return { port: address.port, answer }
}

suite('the consent page', needs('browser'), () => {
  for (const [name, host] of [
    ['127.0.0.1', '127.0.0.1'],
    ['localhost', '127.0.0.1'],
    ['[::1]', '::1'],
  ] as const) {
    test(`leads to a program on ${name} after Allow`, async (t) => {
      const s = await serveHost(t, { daemons: ['proxyd', 'authd'] })
      const ada = await signIn(s, 'local:ada')
      const { port, answer } = await openCallback(t, host)
      const { context, open } = await visitor(t)
      const [cookie = '', value = ''] = ada.cookie.split('=')
      await context.addCookies([{ name: cookie, value, url: s.url() }])
      const parameters = authorization({ redirect_uri: `http://${name}:${port}/callback` })
      const page = await open(`${s.url()}/auth/authorize?${new URLSearchParams(parameters)}`)
      await page.getByRole('button', { name: 'Allow' }).click()
      await page.getByRole('heading', { name: 'Done' }).waitFor()
      const { searchParams } = await answer
      assert.match(searchParams.get('code') ?? '', /^[\w-]{43}$/)
      assert.deepEqual([searchParams.get('state'), searchParams.get('iss')], ['a state', 'http://localhost:8080'])
    })
  }
})
