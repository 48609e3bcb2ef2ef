// A proxy in a process of its own, with limits that the program does not offer as settings: `egress-child.ts <options> <entries>`,
// both as JSON. Prints its addresses and `ready` like the program.
import { startProxy } from '../../src/egress/proxy.ts'

const [, , options = '{}', entries = '[]'] = process.argv
const proxy = await startProxy(JSON.parse(options))
for (const entry of JSON.parse(entries)) await proxy.sources.set(entry)
process.stdout.write('ready\n')
