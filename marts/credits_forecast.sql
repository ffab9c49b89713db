-- purpose: Forecast of the month's cost, from the last run of each pipeline; `millrace quota` shows the same.
-- grain: One row per account, pipeline and month (UTC).
-- question: Will this month's credits last, and what does each pipeline take of them?
-- topic: What was loaded, and what it cost
-- reads: etl.forecasts
-- column account: The account whose key is used.
-- column pipeline: The pipeline.
-- column month: First day of the month, UTC.
-- column spent: Credits spent and reserved when it was computed. Unit: credits.
-- column forecast: Credits at the end of the month; NULL where no price is known. Unit: credits.
-- column forecast_low: Lower bound of forecast, from what other customers paid; NULL where unknown. Unit: credits.
-- column forecast_high: Upper bound of forecast. Unit: credits.
-- column computed_at: When the run computed it.
-- column run_id: The run.
select account, pipeline, month, spent, case when low = high then high end as forecast, low as forecast_low, high as forecast_high, computed_at, run_id
from etl.forecasts
