import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { parseDotenv } from '../../lib/text/dotenv.ts'
import { missingKeys, redactSettings } from './settings-redaction.ts'

const SECRETS = {
  ...{ SECRETS_KEY: 'a', CHANNEL_SECRET: 'b', OPENAI_API_KEY: 'sk-1', CLAUDE_CODE_OAUTH_TOKEN: 'c', TTS_KEY: 'd' },
  ...{
    DATABASE_URL: 'postgres://localhost/db',
    OPENAI_BASE_URL: 'https://me:pw@host/v1',
    TTS_URL: 'https://h/v1?key=1',
  },
  ...{ SMTP_PASSWORD: 'e', GITHUB_PAT: 'f', AGENT_COMMAND: `run --bearer ${'0123456789abcdef'.repeat(4)}` },
}
const OPEN = {
  ...{ ASSISTANT_NAME: 'x', WEB_LISTEN: '127.0.0.1:1', ANTHROPIC_API_KEY: 'sealed', ROUTD_URL: 'http://h:1' },
  ...{ ROUTD_BEARER_FILE: '/etc/bearer', AGENT_CLI: 'claude' },
}
const formatEnv = (entries: object): string =>
  Object.entries(entries)
    .map(([key, value]) => `${key}=${value}\n`)
    .join('')

suite('redacted settings', () => {
  test('contain everything but secrets and comments', () => {
    const redacted = redactSettings(`# OLD_KEY=sk-old\n${formatEnv({ ...OPEN, ...SECRETS })}`, '.env')
    assert.deepEqual(redacted.leftOut.toSorted(), Object.keys(SECRETS).sort())
    assert.deepEqual(Object.fromEntries(parseDotenv(redacted.text, '.env')), OPEN)
    for (const value of [...Object.values(SECRETS).filter((secret) => secret.length > 3), 'sk-old'])
      assert.equal(redacted.text.includes(value), false, value)
  })

  test('list the missing keys until they are added', () => {
    const { text } = redactSettings(formatEnv(SECRETS), '.env')
    assert.deepEqual(missingKeys(text, '.env').toSorted(), Object.keys(SECRETS).sort())
    assert.equal(missingKeys(`${text}SECRETS_KEY=x\n`, '.env').includes('SECRETS_KEY'), false)
    assert.deepEqual(missingKeys(formatEnv(OPEN), '.env'), [])
  })
})
