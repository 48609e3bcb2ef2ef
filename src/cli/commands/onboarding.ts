// Onboarding: chats and people that ask for a folder.
import type { OnboardingRow } from '../../core/people/onboarding.ts'
import { CHAT_ROLES } from '../../core/people/onboarding-admission.ts'
import { systemClock, timestamp } from '../../lib/clock.ts'
import { throwUsageError } from '../../lib/command-line/program.ts'
import { onboardingResource } from '../../resources/onboarding.ts'
import { defineSvcCommand } from '../command.ts'

const onboarding = onboardingResource.verbs

/** Without one that has expired. */
function openCode({ pairing_code, pairing_expires_at = '' }: OnboardingRow): string | undefined {
  return pairing_expires_at > timestamp(systemClock.now()) ? pairing_code : undefined
}

function roleOf(given: string | undefined) {
  const role = CHAT_ROLES.find((each) => each === given)
  return given === undefined
    ? undefined
    : (role ?? throwUsageError(`--role takes ${CHAT_ROLES.join(', ')}, not ${given}`))
}

export const onboardingCommands = [
  defineSvcCommand({
    usage: 'onboarding <instance> list [--json]',
    about: 'list the chats and people that ask for a folder; an operator decides on those without a gate',
    example: 'onboarding demo list',
    run: async (svc) =>
      svc.print.table({
        rows: await svc.listAll(onboarding.list, 'onboarding', {}),
        columns: {
          JID: ({ jid }) => jid,
          STATUS: ({ status }) => status,
          FOLDER: ({ folder }) => folder ?? '-',
          CODE: (row) => openCode(row) ?? '-',
          GATE: ({ gate }) => gate ?? '-',
          USER: ({ user_sub }) => user_sub ?? '-',
          CREATED: ({ created }) => created,
        },
        empty: 'no requests',
      }),
  }),
  defineSvcCommand({
    usage: 'onboarding <instance> approve <jid> [--folder|-f <folder>] [--to <folder>] [--role <role>]',
    about:
      'let a chat or person in, by its JID or pairing code: into the folder that was asked for or another new one, with its route and grant, or --to one that exists, as admin, member (default) or none',
    example: 'onboarding demo approve telegram:42 --folder team/ada',
    run: async (svc, { jid: given, folder, to, role }) => {
      const { jid } = given.includes(':') ? { jid: given } : await svc.call(onboarding.find_pairing, { code: given })
      const row = await svc.call(onboarding.update, { jid, action: 'approve', folder, to, role: roleOf(role) })
      svc.print.line(`approved ${jid} -> ${row.folder}`)
    },
  }),
  defineSvcCommand({
    usage: 'onboarding <instance> refuse <jid>',
    about: 'refuse a request; the chat is told and not greeted again',
    example: 'onboarding demo refuse telegram:42',
    run: async (svc, { jid }) => {
      await svc.call(onboarding.update, { jid, action: 'refuse' })
      svc.print.line(`refused ${jid}`)
    },
  }),
  defineSvcCommand({
    usage: 'onboarding <instance> reprompt <jid>',
    about: 'ask a chat or person for a name again',
    example: 'onboarding demo reprompt telegram:42',
    run: async (svc, { jid }) => {
      await svc.call(onboarding.update, { jid, action: 'reprompt' })
      svc.print.line(`prompted ${jid} again`)
    },
  }),
]
