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
  /** Loaded units of a night. */
  readonly nightUnits: number
  /** Units planned anew at its end. */
  readonly newUnits: number
  /** Units that `millrace plan` prices. */
  readonly planUnits: number
  /** Seconds a packed report takes at the service. */
  readonly reportSeconds: number
}

export const fullSizes: Sizes = {
  rounds: 5,
  rows: 1_000_000,
  pages: 500,
  ratePages: 500,
  units: [10, 100, 1000],
  warehouseRows: 0,
  nightUnits: 7_200_000,
  newUnits: 1_000_000,
  planUnits: 100_000,
  reportSeconds: 30,
}

export const quickSizes: Sizes = {
  rounds: 1,
  rows: 200_000,
  pages: 500,
  ratePages: 100,
  units: [10, 100],
  warehouseRows: 0,
  nightUnits: 108_000,
  newUnits: 50_000,
  planUnits: 10_000,
  reportSeconds: 1,
}
