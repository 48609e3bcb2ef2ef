#!/usr/bin/env node
import { start } from './front.js'

await start({ name: 'svc', help: 'help.txt', entry: 'cli/io', misuse: 1 })
