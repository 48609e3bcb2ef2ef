import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { demoCli } from '../../../test/support/cli.ts'

const UUID = /^[0-9a-f-]{36}$/

suite('svc bearers', () => {
  test('lists bearers with their name, folder and state, and revokes one', async (t) => {
    const cli = await demoCli(t)
    const empty = await cli.run('bearers demo list')
    assert.deepEqual([empty.code, empty.stdout, empty.stderr], [0, '', 'no bearers\n'])
    await cli.ok('bearer demo github:42 --name backup --folder main --ttl 12h')
    await cli.ok('bearer demo github:43')
    const [head = '', row = '', ...rest] = (await cli.ok('bearers demo list github:42')).trimEnd().split('\n')
    assert.equal(head, 'ID\tSUB\tNAME\tFOLDER\tCREATED_AT\tEXPIRES_AT\tLAST_USED\tSTATE')
    const [id = '', sub, name, folder, , , used, state] = row.split('\t')
    assert.match(id, UUID)
    assert.deepEqual([sub, name, folder, used, state, rest], ['github:42', 'backup', 'main', '-', 'active', []])
    assert.equal(await cli.ok(`bearers demo revoke ${id}`), `revoked the bearer ${id}\n`)
    assert.match(await cli.ok('bearers demo list github:42'), /\trevoked\n$/)
    const again = await cli.run(`bearers demo revoke ${id}`)
    assert.deepEqual([again.code, again.stderr], [1, 'svc: that bearer has ended already\n'])
    const unknown = await cli.run('bearers demo revoke x')
    assert.deepEqual([unknown.code, unknown.stderr], [1, 'svc: there is no such bearer\n'])
    const all: unknown = JSON.parse(await cli.ok('bearers demo list --json'))
    assert.ok(Array.isArray(all))
    assert.equal(all.length, 2)
  })
})

suite('svc keys', () => {
  test('rotates keys, keeping earlier bearers unless --now ends them', async (t) => {
    const cli = await demoCli(t)
    await cli.ok('bearer demo github:42')
    const rows = async () =>
      (await cli.ok('keys demo list'))
        .trimEnd()
        .split('\n')
        .slice(1)
        .map((line) => line.split('\t'))
    const [[first = ''] = []] = await rows()
    const rotated = await cli.ok('keys demo rotate')
    const [, second = ''] = /^new bearers are signed with (\S+)\nearlier bearers stay valid/.exec(rotated) ?? []
    assert.deepEqual(
      new Map((await rows()).map(([kid, status]) => [kid, status])),
      new Map([
        [second, 'active'],
        [first, 'retiring'],
      ]),
    )
    const ended = await cli.ok('keys demo rotate --now')
    assert.match(ended, /\nended 2 earlier keys\nevery bearer issued before is refused from now on: /)
    assert.deepEqual((await rows()).map(([, status]) => status).sort(), ['active', 'retired', 'retired'])
    assert.doesNotMatch(await cli.ok('keys demo list --json'), /jwk|sealed/)
  })
})
