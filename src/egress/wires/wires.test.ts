import { suite } from 'node:test'
import { openPuppet } from '../../../test/support/puppet.ts'
import { wiresContract } from './wires.contract.ts'

suite('wires on the kernel’s calls', () => wiresContract((t) => openPuppet('epoll', t)))
suite('wires on Node’s sockets', () => wiresContract((t) => openPuppet('net', t)))
