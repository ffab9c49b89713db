// Compiles the program once for all end-to-end tests of a run.
import { useCompiledProgram } from './program.ts'

let remove: (() => void) | null = null

export const setup = async (): Promise<void> => {
  remove = await useCompiledProgram()
}

export const teardown = (): void => remove?.()
