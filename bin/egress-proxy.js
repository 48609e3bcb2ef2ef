#!/bin/sh
':' //; s=$0; case $s in */*) ;; *) s=./$s ;; esac; while [ -L "$s" ] && l=$(readlink -- "$s" 2>/dev/null); do case $l in /*) s=$l ;; *) s=${s%/*}/$l ;; esac; done; b=${s%/*}; [ -e /etc/alpine-release ] || for n in "$b"/../node_modules/node-*/bin/node "$b"/../../node-*/bin/node; do [ -x "$n" ] && exec "$n" --disable-warning=ExperimentalWarning "$s" "$@"; done; exec node "$s" "$@"

// A shell runs the line above, as in svc.js. To Node it is a string and a comment.
import { start } from './launcher.js'

await start({ name: 'egress-proxy', help: 'help-egress-proxy.txt', entry: 'egress/io', printsVersion: true })
