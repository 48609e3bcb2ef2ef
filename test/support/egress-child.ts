// A proxy as a process of its own, for limits that no setting of the program has: `egress-child.ts <options> <entries>`,
// both as JSON. Tells as the program does when it is ready.
import { startProxy } from '../../src/egress/proxy.ts'

const [, , options = '{}', entries = '[]'] = process.argv
const proxy = await startProxy(JSON.parse(options))
for (const entry of JSON.parse(entries)) await proxy.sources.set(entry)
process.stdout.write('ready\n')
