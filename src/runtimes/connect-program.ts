// Path of `connect.ts`, the ProxyCommand of ssh in a cell.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

export const CONNECT_PROGRAM = fileURLToPath(new URL(`./connect${extname(import.meta.url)}`, import.meta.url))
