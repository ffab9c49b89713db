-- purpose: Attributes that people maintain for domains and other values (attributes/*.csv), one per row.
-- grain: One row per subject, value and attribute.
-- question: Which attributes has example.com?
-- topic: Domains and their attributes
-- reads: attribute_versions
-- column subject: Kind of the value, for example domain or category_id; pattern for page types.
-- column value: The value.
-- column attribute: Name of the attribute: a column of the file.
-- column text: Value of the attribute; a list as JSON text.
-- column since: When its current attributes were applied.
select v.subject, v.value, a.key as attribute, a.value as text, v.valid_from as since
from bi.attribute_versions v cross join lateral jsonb_each_text(v.attributes) as a where v.valid_to is null
