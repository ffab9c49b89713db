-- Made by `millrace docs` from semantic/*.yaml; do not edit.
select * from {{ source('millrace', 'domain_pairs') }}
