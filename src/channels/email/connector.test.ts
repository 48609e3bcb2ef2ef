import { openEmailAccount, shareMailServer } from '../../../test/support/email-server.ts'
import { testConnector } from '../process/connector.contract.ts'

const server = shareMailServer()

testConnector({
  platform: 'email',
  textMax: 500_000,
  afterLostAnswer: 'unknown',
  open: async (t) => openEmailAccount(t, await server()),
})
