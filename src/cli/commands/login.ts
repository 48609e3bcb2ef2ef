// Signs a person in: prints a one-time link for a browser, or signs this command line in to an instance on another machine.

import { throwUsageError } from '../../lib/command-line/program.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { shellQuote } from '../../lib/text/shell-quote.ts'
import { sessionsResource } from '../../resources/sessions.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'

/** As long as the server keeps a request open. */
const SIGN_IN_TIMEOUT_MS = 10 * 60_000
/** The exit code of shells for Ctrl-C. */
const EXIT_INTERRUPTED = 130

export const loginCommands = [
  defineSvcCommand({
    usage: 'login <instance> [<sub>] [--url|-u <base>] [--device|-d]',
    about:
      'print a link that signs <sub> in once, within 15 minutes; or with --url sign in to an instance on another machine, as <instance> on this one, with --device on another device',
    example: 'login demo local:operator',
    run: async (svc, { instance, sub, url, device }) => {
      if (url === undefined) {
        if (device) throwUsageError('--device needs --url')
        await printLink(
          svc,
          instance,
          sub ?? throwUsageError('give the person to sign in, such as local:operator, or --url'),
        )
        return 0
      }
      if (sub !== undefined) throwUsageError('give a person or --url, not both: the browser shows who signs in')
      return signIn(svc, { instance, url, device })
    },
  }),
]

export const logoutCommands = [
  defineSvcCommand({
    usage: 'logout <instance>',
    about: 'end the session that login --url started, and delete its tokens',
    example: 'logout prod',
    run: async ({ io, print }, { instance }) => {
      const [{ locateInstance }, { readSignIn, removeSignIn }, { revokeSignIn }] = await Promise.all([
        import('../instance/instance.ts'),
        import('../remote/sign-in-file.ts'),
        import('../remote/oauth-client.ts'),
      ])
      const location = locateInstance(instance, io.environment)
      const known = (await readSignIn(location)) ?? refuse('not_found', `you are not signed in to ${instance}`)
      // Deleted even if the server does not respond.
      await removeSignIn(location)
      try {
        await revokeSignIn(known)
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        print.warn(`the tokens are deleted, but the session on the server may go on: ${error.message}`)
        return 1
      }
      print.line(`signed out of ${instance} (${known.base})`)
      return 0
    },
  }),
]

async function printLink(svc: SvcContext, instance: string, sub: string): Promise<void> {
  const { path, has_grant, has_dashboard } = await svc.call(sessionsResource.verbs.create_link, { sub })
  const [{ host, layout }, { servingProcesses }] = await Promise.all([
    svc.open(),
    import('../../daemons/process/presence.ts'),
  ])
  const { print } = svc
  print.line(`${host.webBase}${path}`)
  print.say(`valid for 15 minutes, once; it leads to the ${has_dashboard ? 'dashboard' : 'account page'}`)
  const quoted = shellQuote(sub)
  if (!has_grant)
    print.warn(
      `${sub} may do nothing yet: svc group ${instance} grant ${quoted} <folder> lets them administer a folder`,
    )
  if ((await servingProcesses(layout))?.length !== 0) return
  const { startCommand } = await import('../../deploy/start-command.ts')
  print.say(`${instance} is not being served on this machine: ${await startCommand({ name: instance, layout })}`)
}

interface RemoteLogin {
  readonly instance: string
  readonly url: string
  readonly device: boolean
}

async function signIn({ io, print }: SvcContext, { instance, url, device }: RemoteLogin): Promise<number> {
  const stopped = io.stopped()
  const [{ locateInstance }, { parseBaseUrl }, { mustNotBeLocal, readSignIn, writeSignIn }] = await Promise.all([
    import('../instance/instance.ts'),
    import('../remote/server-address.ts'),
    import('../remote/sign-in-file.ts'),
  ])
  const base = parseBaseUrl(url)
  const location = locateInstance(instance, io.environment)
  await mustNotBeLocal(location)
  const { revokeSignIn, signInWithBrowser, signInWithDevice } = await import('../remote/oauth-client.ts')
  const stop = new AbortController()
  void stopped.then(() => stop.abort())
  const timeout = AbortSignal.timeout(SIGN_IN_TIMEOUT_MS)
  const options = { clock: io.clock, say: print.say, signal: AbortSignal.any([stop.signal, timeout]) }
  const previous = await readSignIn(location).catch(() => undefined)
  try {
    await writeSignIn(location, await (device ? signInWithDevice : signInWithBrowser)(base, options))
    // Its tokens are gone, so the session would stay open unused.
    if (previous?.base === base) await revokeSignIn(previous).catch(() => {})
  } catch (error) {
    if (timeout.aborted) refuse('unavailable', 'the sign-in was not finished within 10 minutes; nothing was saved')
    if (!stop.signal.aborted) throw error
    print.say('stopped; nothing was saved')
    return EXIT_INTERRUPTED
  }
  print.say(`signed in to ${base}; commands such as svc token ${instance} list now work there`)
  return 0
}
