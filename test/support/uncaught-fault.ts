// Loaded into a process with `--import`: signals make it throw where nothing catches it.
process.on('SIGUSR2', () => {
  throw new TypeError('odd event')
})
process.on('SIGWINCH', () => {
  void Promise.reject(new TypeError('odd promise'))
})
