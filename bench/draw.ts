// Draws docs/pictures/growth.svg from the last line of each growth figure in bench/RESULTS.md. Run: node bench/draw.ts
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Curve, growthChart } from './chart.ts'
import { goals } from './goals.ts'
import { exponentOf } from './results.ts'

const results = readFileSync(join(import.meta.dirname, 'RESULTS.md'), 'utf8')

/** `100000: 1.2 s, 1000000: 4.5 s` in the goal's row. */
const curveOf = (id: 'cost-rows' | 'cost-units', title: string): Curve => {
  const work = goals.find((goal) => goal.id === id)?.work ?? id
  const row = results.split('\n').find((line) => line.startsWith(`| ${work} |`)) ?? ''
  const points = [...row.matchAll(/(\d+): ([\d.]+) s/g)].map((match) => [Number(match[1]), Number(match[2])] as const)
  if (points.length < 2) throw new Error(`bench/RESULTS.md has no points for '${work}'; run npm run bench.`)
  return { title, points, exponent: exponentOf(points) }
}

const svg = growthChart([curveOf('cost-rows', 'Rows of a report'), curveOf('cost-units', 'Tiny units')])
writeFileSync(join(import.meta.dirname, '..', 'docs', 'pictures', 'growth.svg'), svg)
