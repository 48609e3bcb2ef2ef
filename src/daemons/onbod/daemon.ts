// onbod: onboarding of new people by gates and invites.
import { defineDaemon } from '../daemon.ts'

export const onbod = defineDaemon({
  name: 'onbod',
  about: 'onboards new people',
})
