// onbod: onboarding of new people by gates and invites.

import { defineDaemon } from '../daemon.ts'
import { SIGN_INS } from '../http/sign-in.ts'
import { signInAllowlist } from '../http/sign-in-allowlist.ts'
import { SESSION_SETTINGS } from '../settings.ts'
import { AdmissionWorker } from './admission-worker.ts'
import { mountInvitePages } from './invite-pages.ts'
import { mountOnboardingPages } from './onboarding-pages.ts'

export const onbod = defineDaemon({
  name: 'onbod',
  about: 'onboards new people',
  settings: SESSION_SETTINGS,
  metrics: [SIGN_INS],
  start: ({ host, app, log, defer }, settings) => {
    const isAllowed = signInAllowlist(() => settings.SIGN_IN_ALLOW)
    mountInvitePages(app, { host, log, isAllowed, settings })
    mountOnboardingPages(app, host)
    // Admission creates files; a process without them leaves it to another.
    if (!host.layout) return
    const worker = new AdmissionWorker({ host, log })
    defer(() => worker.close())
  },
})
