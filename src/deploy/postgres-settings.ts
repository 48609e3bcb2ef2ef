// `svc generate --postgres`: the PostgreSQL service is remembered in .env by its password. Commands on this machine reach it
// by a socket in the data directory, so no port is published.
import { join } from 'node:path'
import type { Layout } from '../core/layout.ts'
import { type Random, systemRandom } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'
import { editDotenv, parseDotenv } from '../lib/text/dotenv.ts'
import { postgresUrl } from './daemon-env.ts'
import { POSTGRES_SOCKET_DIRECTORY } from './mounted-directories.ts'

/** Of a socket address on Linux, with the name that PostgreSQL gives it. */
const SOCKET_PATH_MAX = 107

/** The text of .env with a database in a container; the same text if it has one. */
export function addPostgresSettings(text: string, { env, root }: Layout, random: Random = systemRandom): string {
  const entries = parseDotenv(text, env)
  const directory = join(root, POSTGRES_SOCKET_DIRECTORY)
  if (Buffer.byteLength(join(directory, '.s.PGSQL.5432')) > SOCKET_PATH_MAX)
    refuse('invalid', `the path ${directory} is too long for a socket`, 'move the data directory to a shorter path')
  const password = entries.get('POSTGRES_PASSWORD') || Buffer.from(random.bytes(24)).toString('hex')
  const url = postgresUrl(encodeURIComponent(directory), password)
  const written = entries.get('DATABASE_URL')
  if (written && !written.includes(encodeURIComponent(`/${POSTGRES_SOCKET_DIRECTORY}`)))
    refuse(
      'conflict',
      `DATABASE_URL in ${env} names another database; nothing was changed`,
      'remove it from .env to use a PostgreSQL service instead',
    )
  if (written === url && entries.get('POSTGRES_PASSWORD') === password) return text
  return editDotenv(
    text,
    new Map([
      ['POSTGRES_PASSWORD', password],
      ['DATABASE_URL', url],
    ]),
  )
}
