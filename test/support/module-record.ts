// Loaded by `node --import` before a program: appends the address of every module that its main thread loads to the file that
// SVC_TEST_MODULES names.
import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { isMainThread } from 'node:worker_threads'

const file = process.env.SVC_TEST_MODULES
if (file !== undefined && isMainThread)
  registerHooks({
    load: (url, context, nextLoad) => {
      appendFileSync(file, `${url}\n`)
      return nextLoad(url, context)
    },
  })
