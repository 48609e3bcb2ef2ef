import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createScriptHandler } from './script-response.ts'

const request = { acceptEncoding: undefined, ifNoneMatch: undefined }

test('a script that could not be built is built again at the next request', async () => {
  let builds = 0
  const handler = createScriptHandler(() => {
    builds++
    if (builds === 1) throw new Error('no such file')
    return { headers: {}, body: 'a()' }
  })
  await assert.rejects(handler(request), /no such file/)
  assert.equal(Buffer.from((await handler(request)).body ?? '').toString(), 'a()')
  await handler(request)
  assert.equal(builds, 2)
})
