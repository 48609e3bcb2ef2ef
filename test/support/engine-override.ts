// An engine with some methods replaced.
import type { Engine } from '../../src/store/engine.ts'

export function overrideEngine(engine: Engine, changes: Partial<Engine>): Engine {
  return {
    dialect: engine.dialect,
    failed: engine.failed,
    read: (work) => engine.read(work),
    transaction: (work) => engine.transaction(work),
    listen: (listener) => engine.listen(listener),
    ...(engine.copy ? { copy: engine.copy.bind(engine) } : {}),
    close: () => engine.close(),
    ...changes,
  }
}
