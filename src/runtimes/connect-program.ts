// Where the program lies that joins ssh to the proxy of a cell.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

export const CONNECT_PROGRAM = fileURLToPath(new URL(`./connect${extname(import.meta.url)}`, import.meta.url))
