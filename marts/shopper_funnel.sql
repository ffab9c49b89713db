-- purpose: From viewing a product to buying it, by category.
-- grain: One row per date, granularity, domain and category_id.
-- question: Where do visitors look often and buy rarely?
-- topic: Shops
-- reads: shopper_category_performance, dim_category, domains
-- column category: The category's name, from attributes/categories.csv or the service; its number if neither names it.
-- column product_views: Views of product pages. Unit: views.
-- column units_sold: Products sold. Unit: units.
-- column revenue: Sales. Unit: US dollars.
-- column conversion: units_sold divided by product_views; over several rows divide the sums. Unit: fraction.
-- column revenue_per_unit: revenue divided by units_sold. Unit: US dollars.
-- column revenue_per_view: revenue divided by product_views. Unit: US dollars.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.
select s.date, s.granularity, s.domain, s.category_id, s.product_views, s.units_sold, s.revenue,
  round(s.units_sold / nullif(s.product_views, 0), 6) as conversion,
  round(s.revenue / nullif(s.units_sold, 0), 4) as revenue_per_unit,
  round(s.revenue / nullif(s.product_views, 0), 6) as revenue_per_view,
  coalesce(c.name, s.category_id::text) as category, coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from bi.shopper_category_performance s
left join bi.dim_category c on c.category_id = s.category_id
left join bi.domains g on g.domain = s.domain
