import { suite } from 'node:test'
import { openScriptedTransport } from '../../../test/support/scripted-transport.ts'
import { transportContract } from './transport.contract.ts'

suite('epoll transport', () => transportContract((t) => openScriptedTransport('epoll', t)))
suite('Node transport', () => transportContract((t) => openScriptedTransport('net', t)))
