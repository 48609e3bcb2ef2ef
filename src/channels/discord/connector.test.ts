import { openDiscordServer } from '../../../test/support/discord-server.ts'
import { testConnector } from '../process/connector.contract.ts'

testConnector({ platform: 'discord', textMax: 2000, afterLostAnswer: 'sent once', open: (t) => openDiscordServer(t) })
