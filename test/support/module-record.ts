// Loaded with `node --import` before a program: appends the URL of every module that its main thread loads to the file
// SVC_TEST_MODULES.
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
