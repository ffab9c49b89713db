-- purpose: From viewing a product to buying it, by category.
-- grain: One row a date, granularity, domain and category_id.
-- question: Where do visitors look much and buy little?
-- reads: shopper_category_performance
-- column product_views: Views of product pages. Unit: views.
-- column units_sold: Products sold. Unit: units.
-- column revenue: Sales. Unit: US dollars.
-- column conversion: units_sold divided by product_views, computed from both, so that it can be computed again over sums. Unit: fraction.
-- column revenue_per_unit: revenue divided by units_sold. Unit: US dollars.
-- column revenue_per_view: revenue divided by product_views. Unit: US dollars.
select date, granularity, domain, category_id, product_views, units_sold, revenue,
  round(units_sold / nullif(product_views, 0), 6) as conversion,
  round(revenue / nullif(units_sold, 0), 4) as revenue_per_unit,
  round(revenue / nullif(product_views, 0), 6) as revenue_per_view
from bi.shopper_category_performance
