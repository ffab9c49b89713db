// How much the benchmark does: in full, or quickly (under two minutes).
export interface Sizes {
  readonly rounds: number
  /** Rows of the report; ten times and a tenth of it are measured too. */
  readonly rows: number
  readonly pages: number
  /** Pages of the walk at the service's own rate; the fewer, the more the start weighs. */
  readonly ratePages: number
  readonly units: readonly number[]
  /** Rows the full warehouse holds; 0: not measured. */
  readonly warehouseRows: number
}

export const fullSizes: Sizes = {
  rounds: 5,
  rows: 1_000_000,
  pages: 500,
  ratePages: 500,
  units: [10, 100, 1000],
  warehouseRows: 0,
}

export const quickSizes: Sizes = {
  rounds: 1,
  rows: 200_000,
  pages: 500,
  ratePages: 100,
  units: [10, 100],
  warehouseRows: 0,
}
