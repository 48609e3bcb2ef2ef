#!/bin/sh
':' //; s=$(readlink -f -- "$0"); b=${s%/*}; for n in "$b"/../node_modules/node-*/bin/node "$b"/../../node-*/bin/node; do [ -x "$n" ] && exec "$n" --max-semi-space-size=4 --disable-warning=ExperimentalWarning "$s" "$@"; done; exec node "$s" "$@"

// A shell runs the line above: it replaces itself with the Node that npm installed for this project, so no launcher process
// remains. To Node that line is a string and a comment.
import { start } from './launcher.js'

await start({ name: 'svc', help: 'help.txt', entry: 'cli/io', misuse: 1 })
