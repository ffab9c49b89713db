-- purpose: Every followed domain with its attributes from attributes/domains.csv: group, ownership, team and brand terms.
-- grain: One row per domain.
-- question: Which of the followed domains are ours, and which competitors belong together?
-- topic: Domains and their attributes
-- reads: dim_domain, attribute_versions
-- column domain: Domain, without www.
-- column domain_group: Its group (column group of the file); (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.
-- column team: The team responsible for it (column team of the file); (none) if the file names none.
-- column brand_terms: Terms for its brand that people search for, in lower case; NULL if the file names none.
-- column first_seen_at: When it was first loaded.
select d.domain, coalesce(v.attributes ->> 'group', '(none)') as domain_group, coalesce(v.attributes ->> 'ownership', '(none)') as ownership,
  coalesce(v.attributes ->> 'team', '(none)') as team,
  case when jsonb_typeof(v.attributes -> 'brand_terms') = 'array' then array(select jsonb_array_elements_text(v.attributes -> 'brand_terms')) end as brand_terms,
  d.first_seen_at
from bi.dim_domain d left join bi.attribute_versions v on v.subject = 'domain' and v.value = d.domain and v.valid_to is null
