#!/bin/sh
':' //; s=$0; case $s in */*) ;; *) s=./$s ;; esac; while [ -L "$s" ] && l=$(readlink -- "$s" 2>/dev/null); do case $l in /*) s=$l ;; *) s=${s%/*}/$l ;; esac; done; b=${s%/*}; [ -e /etc/alpine-release ] || for n in "$b"/../node_modules/node-*/bin/node "$b"/../../node-*/bin/node; do [ -x "$n" ] && exec "$n" --max-semi-space-size=4 --disable-warning=ExperimentalWarning "$s" "$@"; done; exec node "$s" "$@"

// A shell runs the line above: it replaces itself with the Node that npm installed for this project, so no launcher process
// remains. To Node that line is a string and a comment. It follows links by hand, since older macOS has no `readlink -f`. The
// Node of npm needs glibc, which Alpine lacks.
import { start } from './launcher.js'

await start({ name: 'svc', help: 'help.txt', entry: 'cli/io' })
