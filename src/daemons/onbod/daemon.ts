// Newcomers: gates, invites and who waits.
import { daemon } from '../daemon.ts'

export const onbod = daemon({
  name: 'onbod',
  about: 'lets newcomers in',
})
