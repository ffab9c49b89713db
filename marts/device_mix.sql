-- purpose: Which part of the visits comes from mobile devices.
-- grain: One row a date, granularity, domain, country and include_subdomains.
-- question: Is our audience moving to the phone faster than the market?
-- reads: traffic_and_engagement
-- column mobile_visits: Visits from mobile web. Unit: visits.
-- column desktop_visits: Visits from desktop. Unit: visits.
-- column mobile_share: mobile_visits divided by both; NULL where either is not known. Unit: fraction.
select date, granularity, domain, country, include_subdomains, mobile_visits, desktop_visits,
  round(mobile_visits / nullif(mobile_visits + desktop_visits, 0), 6) as mobile_share
from bi.traffic_and_engagement
