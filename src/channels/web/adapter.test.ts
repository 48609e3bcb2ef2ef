import { suite } from 'node:test'
import { testChannelContract } from '../channel.contract.ts'
import { openChannel } from './adapter.ts'

suite('the chats of links', () => {
  testChannelContract(async () => ({
    channel: openChannel(),
    jid: 'web:main',
    abilities: ['send', 'send_file', 'send_voice'],
    delivered: async () => [],
  }))
})
