#!/usr/bin/env node
import { start } from './front.js'

await start({ name: 'egress-proxy', help: 'help-egress-proxy.txt', entry: 'egress/io', misuse: 2, printsVersion: true })
