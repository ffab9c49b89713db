-- purpose: All pairs of followed domains, for two filters of a dashboard (domain and other domain), without reading facts.
-- grain: One row per domain and other_domain.
-- question: Which domains can I compare us with?
-- topic: Us and the others in search
-- reads: dim_domain
-- column domain: A followed domain.
-- column other_domain: Another followed domain.
select d.domain, o.domain as other_domain from bi.dim_domain d join bi.dim_domain o on o.domain <> d.domain
