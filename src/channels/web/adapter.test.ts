import { suite } from 'node:test'
import { channelContract } from '../channel.contract.ts'
import { web } from './adapter.ts'

suite('the chats of links', () => {
  channelContract(async () => ({ channel: web, jid: 'web:main', abilities: ['send'], delivered: async () => [] }))
})
