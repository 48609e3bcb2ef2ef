// remote.json: the tokens of a sign-in to an instance on another machine. Only its owner can read it.
import { chmod, rm, rmdir } from 'node:fs/promises'
import { z } from 'zod'
import { errnoCode, makeDirectory, readText, refuseDisk, writeAtomic } from '../../lib/files/atomic-file.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import { hasLocalFiles, type InstanceLocation, remoteFile } from '../instance/instance.ts'

const MAX_BYTES = 65_536

const RemoteSignIn = z.object({
  /** Public URL of the instance, without a trailing slash. */
  base: z.string(),
  access_token: z.string(),
  refresh_token: z.string().optional(),
  /** In milliseconds since 1970. */
  expires_ms: z.number(),
})

export type RemoteSignIn = z.output<typeof RemoteSignIn>

/** Undefined if there is no file. */
export async function readSignIn(location: InstanceLocation): Promise<RemoteSignIn | undefined> {
  const path = remoteFile(location)
  let text: string
  try {
    text = await readText(path, MAX_BYTES)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_found') return undefined
    throw error
  }
  const parsed = RemoteSignIn.safeParse(tryParseJson(text))
  if (parsed.success) return parsed.data
  return refuse('invalid', `${path} is damaged`, `svc login ${location.name} --url <base> writes it again`)
}

/** An instance of this machine would be hidden behind the remote one. */
export async function mustNotBeLocal(location: InstanceLocation): Promise<void> {
  if (await hasLocalFiles(location))
    refuse(
      'conflict',
      `${location.name} is an instance of this machine (${location.layout.root})`,
      'choose another name for the remote one: svc login <name> --url <base>',
    )
}

/** Creates the directory if it is missing. */
export async function writeSignIn(location: InstanceLocation, signIn: RemoteSignIn): Promise<void> {
  const { root } = location.layout
  await makeDirectory(root, 0o700)
  try {
    await chmod(root, 0o700)
  } catch (error) {
    refuseDisk(error, 'use', root)
  }
  await writeAtomic(remoteFile(location), `${JSON.stringify(signIn, null, 2)}\n`, 0o600)
}

/** Also removes the directory if nothing else is in it. */
export async function removeSignIn(location: InstanceLocation): Promise<void> {
  const path = remoteFile(location)
  try {
    await rm(path)
    await rmdir(location.layout.root)
  } catch (error) {
    if (!['ENOENT', 'ENOTEMPTY', 'EEXIST'].includes(errnoCode(error) ?? '')) refuseDisk(error, 'remove', path)
  }
}
