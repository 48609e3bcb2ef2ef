// What a browser or a webhook talks to: chat and hook links.
import { daemon } from '../daemon.ts'

export const webd = daemon({
  name: 'webd',
  about: 'answers the links that are handed out',
})
