// Onboarding: chats and people that ask for a folder.
import { onboardingResource } from '../../resources/onboarding.ts'
import { defineSvcCommand } from '../command.ts'

const onboarding = onboardingResource.verbs

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
          GATE: ({ gate }) => gate ?? '-',
          USER: ({ user_sub }) => user_sub ?? '-',
          CREATED: ({ created }) => created,
        },
        empty: 'no requests',
      }),
  }),
  defineSvcCommand({
    usage: 'onboarding <instance> approve <jid> [--folder|-f <folder>]',
    about: 'create the folder that was asked for, or another new one, with its route and grant',
    example: 'onboarding demo approve telegram:42 --folder team/ada',
    run: async (svc, { jid, folder }) => {
      const row = await svc.call(onboarding.update, { jid, action: 'approve', folder })
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
