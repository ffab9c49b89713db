// Names in a question, found in the model; what is not there is refused with what there is.
import { suggest } from '../definition/problem.ts'
import type { Metric, SemanticDimension, SemanticModel, Subject } from '../definition/semantic.ts'
import { refuse } from './query.ts'

/** Every metric of the model beside the subject it belongs to, in its order. */
export const allMetrics = ({ subjects }: SemanticModel) =>
  [...subjects.values()].flatMap((subject) => [...subject.metrics.values()].map((metric) => ({ metric, subject })))

/** By name, or refused with the nearest names. */
export const findMetric = (model: SemanticModel, name: string) => {
  const all = allMetrics(model)
  const found = all.find(({ metric }) => metric.name === name)
  if (found !== undefined) return found
  const meant = all.filter(({ metric }) => metric.synonyms.includes(name.toLowerCase())).map(({ metric }) => metric.name)
  const names = all.map(({ metric }) => metric.name)
  const hint = meant.length > 0 ? ` By that word: ${meant.join(', ')}.` : suggest(name, names)
  return refuse(`There is no metric '${name}'.${hint}`, meant.length > 0 ? meant : ['list_metrics names them all'])
}

/** All of one subject: rows of different views have no common grain. */
export const findMetrics = (model: SemanticModel, names: readonly string[]): { subject: Subject; metrics: readonly Metric[] } => {
  const found = [...new Set(names)].map((name) => findMetric(model, name))
  const [first] = found
  if (first === undefined) return refuse('The question names no metric.', ['list_metrics names them all'])
  const others = found.filter(({ subject }) => subject !== first.subject)
  if (others.length > 0) {
    const bySubject = new Map<string, string[]>()
    for (const { metric, subject } of found) bySubject.set(subject.name, [...(bySubject.get(subject.name) ?? []), metric.name])
    const parts = [...bySubject].map(([subject, metrics]) => `${metrics.join(', ')} (${subject})`)
    refuse(
      `Metrics of one question come from one subject; these are of ${bySubject.size}: ${parts.join('; ')}.`,
      [...bySubject.values()].map((metrics) => `ask for ${metrics.join(', ')} alone`),
    )
  }
  return { subject: first.subject, metrics: found.map(({ metric }) => metric) }
}

/** By name, or refused: with subjects that have it, where there are any. */
export const findDimension = (model: SemanticModel, subject: Subject, name: string): SemanticDimension => {
  const found = subject.dimensions.get(name)
  if (found !== undefined) return found
  const elsewhere = [...model.subjects.values()].filter(
    (other) => other.dimensions.has(name) && other.pipeline === subject.pipeline,
  )
  return refuse(
    `${subject.name} has no dimension '${name}'.${suggest(name, [...subject.dimensions.keys()])}`,
    elsewhere.map((other) => `${other.name} has it: ${[...other.metrics.keys()].slice(0, 6).join(', ')}`),
  )
}
