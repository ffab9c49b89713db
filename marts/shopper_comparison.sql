-- purpose: Sales of a product category on a domain against an earlier month: the month or quarter before, the same month last year, or any other up to three years back.
-- grain: One row per month, months_back, domain, category_id: wherever one of the two months has a row. months_back runs from 1 to 36; always choose one.
-- question: Did revenue grow over last year, counting only categories that both months have?
-- topic: Shops
-- reads: shopper_category_performance, dim_date, dim_category, domains, breaks
-- column month: First day of the month; only months with monthly rows of their own.
-- column months_back: How many months earlier the other month is: 1 the month before, 3 the quarter before, 12 the same month last year. Unit: months.
-- column comparison: previous (1), previous quarter (3), same last year (12); NULL for the others.
-- column quarter: First day of the month's quarter.
-- column category: The category's name, from attributes/categories.csv or the service; its number if neither names it.
-- column loaded_in: Which of the two months has the row: both, now or before. Compare sum(X) filter (where X_before is not null) with sum(X_before) filter (where X is not null).
-- column is_newest: Whether it is the newest month that is loaded.
-- column method_changed: Whether the service counts by another method since the earlier month: then the two are not comparable, see breaks.
-- column revenue: Sales in the month; NULL where it is not loaded. Unit: US dollars.
-- column revenue_before: Sales in the earlier month; NULL where it is not loaded. Unit: US dollars.
-- column product_views: Views of product pages in the month; NULL where it is not loaded. Unit: views.
-- column product_views_before: Views of product pages in the earlier month; NULL where it is not loaded. Unit: views.
-- column units_sold: Products sold in the month; NULL where it is not loaded. Unit: units.
-- column units_sold_before: Products sold in the earlier month; NULL where it is not loaded. Unit: units.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.

-- Each loaded month is joined with one earlier month: nothing else is read, whatever the query selects.
select m.month, b.months_back, case b.months_back when 1 then 'previous' when 3 then 'previous quarter' when 12 then 'same last year' end as comparison,
  date_trunc('quarter', m.month::timestamp)::date as quarter, pair.domain, pair.category_id,
  pair.loaded_in, m.month = (select max(newest.date) from bi.shopper_category_performance newest where newest.granularity = 'monthly') as is_newest,
  exists (select from unnest((
    -- Read once, over the rows that are shown: after the end of a table, those of its successor.
    with recursive parts as (
      select 'shopper_category_performance' as pipeline, '-infinity'::date as since
      union select e.continued_by, e.starts_on from parts p join bi.breaks e on e.pipeline = p.pipeline and e.kind = 'table'
    )
    select array_agg(n.starts_on) from parts p join bi.breaks n on n.pipeline = p.pipeline left join bi.breaks e on e.pipeline = p.pipeline and e.kind = 'table'
    where n.starts_on >= p.since and (e.starts_on is null or n.starts_on <= e.starts_on))) as k (starts_on)
    where k.starts_on > (m.month - make_interval(months => b.months_back))::date and k.starts_on <= m.month) as method_changed,
  pair.revenue, pair.revenue_before, pair.product_views, pair.product_views_before, pair.units_sold, pair.units_sold_before,
  coalesce(c.name, pair.category_id::text) as category, coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from (select d.date as month from bi.dim_date d where d.date = d.month_start and exists (select from bi.shopper_category_performance f where f.date = d.date and f.granularity = 'monthly')) m
cross join generate_series(1, 36) as b (months_back)
cross join lateral (
  select domain, category_id, case when present.domain is null then 'before' when past.domain is null then 'now' else 'both' end as loaded_in, present.revenue, past.revenue as revenue_before, present.product_views, past.product_views as product_views_before, present.units_sold, past.units_sold as units_sold_before
  from (select domain, category_id, revenue, product_views, units_sold from bi.shopper_category_performance where date = m.month and granularity = 'monthly') present
  full join (select domain, category_id, revenue, product_views, units_sold from bi.shopper_category_performance where date = (m.month - make_interval(months => b.months_back))::date and granularity = 'monthly') past
    using (domain, category_id)
) pair
left join bi.dim_category c on c.category_id = pair.category_id
left join bi.domains g on g.domain = pair.domain
