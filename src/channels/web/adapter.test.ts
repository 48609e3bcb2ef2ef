import { suite } from 'node:test'
import { channelContract } from '../channel.contract.ts'
import { openChannel } from './adapter.ts'

suite('the chats of links', () => {
  channelContract(async () => ({
    channel: openChannel(),
    jid: 'web:main',
    abilities: ['send'],
    delivered: async () => [],
  }))
})
