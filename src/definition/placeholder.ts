// What `millrace new dataset` leaves for a person to write, and how it is recognised.

/** Begins a text that has to be written yet. */
export const placeholder = 'FILL IN:'

/** What is wrong with `text`, or null. */
export const placeholderProblem = (text: string): string | null =>
  text.startsWith(placeholder) ? `'${text}' is a placeholder; write what it asks for.` : null
