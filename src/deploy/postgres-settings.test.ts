import assert from 'node:assert/strict'
import { test } from 'node:test'
import { layout } from '../core/layout.ts'
import { Refusal } from '../lib/refusal.ts'
import { parseDotenv } from '../lib/text/dotenv.ts'
import { addPostgresSettings } from './postgres-settings.ts'

const at = layout('/srv/data/svc_demo')

test('adds a password and the socket of the PostgreSQL service to .env, once', () => {
  const text = addPostgresSettings('# mine\nWEB_HOST=x\n', at)
  const entries = parseDotenv(text, '.env')
  const password = entries.get('POSTGRES_PASSWORD') ?? ''
  assert.match(password, /^[0-9a-f]{48}$/)
  assert.equal(entries.get('DATABASE_URL'), `postgres://svc:${password}@%2Fsrv%2Fdata%2Fsvc_demo%2Fpostgres-socket/svc`)
  assert.match(text, /^# mine\nWEB_HOST=x\n/)
  assert.equal(addPostgresSettings(text, at), text)
})

test('follows an instance that was moved, and keeps its password', () => {
  const text = addPostgresSettings('', layout('/old/svc_demo'))
  const moved = parseDotenv(addPostgresSettings(text, at), '.env')
  assert.equal(moved.get('POSTGRES_PASSWORD'), parseDotenv(text, '.env').get('POSTGRES_PASSWORD'))
  assert.match(moved.get('DATABASE_URL') ?? '', /%2Fsrv%2Fdata%2Fsvc_demo%2F/)
})

test('refuses to replace another database, and a path that is too long for a socket', () => {
  const refuses = (text: string, root: string, sentence: RegExp): void =>
    assert.throws(
      () => addPostgresSettings(text, layout(root)),
      (error) => error instanceof Refusal && sentence.test(error.message) && !error.message.includes('geheim'),
    )
  refuses(
    'DATABASE_URL=postgres://u:geheim@db.example/x\n',
    '/srv/data/svc_demo',
    /names another database; nothing was changed/,
  )
  // The name of the socket has 30 more bytes, and 107 are allowed.
  refuses('', `/${'x'.repeat(77)}`, /is too long for a socket/)
  assert.match(addPostgresSettings('', layout(`/${'x'.repeat(76)}`)), /POSTGRES_PASSWORD=/)
})
