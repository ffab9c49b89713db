-- purpose: Visits of every domain, with the client who follows it.
-- grain: One row per client, date, domain and country.
-- question: How many visits did the domains of each client get last month?
-- reads: acme_traffic, beta_traffic
-- column client: Whose domain it is, as the tags of its pipeline say.
-- column visits: Visits from desktop and mobile web together.
select 'acme' as client, date, domain, country, all_traffic_visits as visits from bi.acme_traffic
union all
select 'beta' as client, date, domain, country, all_traffic_visits as visits from bi.beta_traffic
