// Attributes from files and queries: checked with file and line, kept by time, in dimensions, share of voice by group, page types.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Definition } from '../../src/core/types.ts'
import { loadDashboards } from '../../src/definition/dashboards.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { showProblem } from '../../src/definition/problem.ts'
import { attributesOf, publishAttributes } from '../../src/run/refresh-attributes.ts'
import { publish } from '../../src/publish/publish.ts'
import { loadSourceFolders } from '../../src/sources/registry.ts'
import { shippedDefinitions } from '../support/definitions.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let definitions: readonly Definition[]
let folder: string

beforeAll(async () => {
  definitions = await shippedDefinitions()
  await db.query(
    `create table data.keywords_v1_p202608 partition of data.keywords_v1 for values from ('2026-08-01') to ('2026-09-01')`,
  )
  await db.query(`insert into bi.dim_domain (domain) values ('shop.com'), ('rival.com'), ('other.com')`)
  await db.query('insert into bi.dim_category (category_id) values (12)')
  await db.query(`insert into bi.dim_country (country) values ('us')`)
  await db.query(`insert into data.keywords_v1 (month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, clicks,
      _unit_id, _run_id, _revision, _loaded_at)
    select '2026-08-01', d, 'us', 'All', 'Total', 'All', k, u, c, 1, 1, 1, now() from (values
      ('shop.com', 'shoes', 'shop.com/p/1', 100), ('shop.com', 'Acme shoes', 'shop.com/p/2', 50), ('shop.com', 'how to run', 'shop.com/guide_a', 30),
      ('shop.com', 'x', 'shop.com/guideXa', 20), ('rival.com', 'shoes', 'rival.com/p/9', 300), ('other.com', 'shoes', 'other.com/', 100)) as v (d, k, u, c)`)
  await db.query(
    `create table data.s_1 partition of data.shopper_category_performance_v1 for values from ('2026-08-01') to ('2026-09-01')`,
  )
  await db.query(`insert into data.shopper_category_performance_v1 (date, granularity, domain, category_id, revenue, _unit_id, _run_id, _revision, _loaded_at)
    select '2026-08-01', 'monthly', 'shop.com', c, 1, 1, 1, 1, now() from unnest(array[12, 13]) c`)
  await db.query(
    `create table data.t_1 partition of data.traffic_and_engagement_v1 for values from ('2026-08-01') to ('2026-09-01')`,
  )
  await db.query(`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, all_traffic_visits, _unit_id, _run_id,
    _revision, _loaded_at) values ('2026-08-01', 'monthly', 'shop.com', 'us', true, 1, 1, 1, 1, now())`)
  await publish(db.database, definitions, await loadMarts([]))
})
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-attributes-'))
  mkdirSync(join(folder, 'attributes'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const write = (name: string, text: string): void => writeFileSync(join(folder, 'attributes', name), text)
const found = async () => attributesOf(join(folder, 'pipelines'), definitions, (await loadSourceFolders()).sources)
const apply = async () => publishAttributes(db.database, await found(), definitions)

const patterns = (many: number): string => Array.from({ length: many }, (_, at) => `*/${at}/*,a\n`).join('')

describe('attributes', () => {
  test('stand beside their values, change by time, and end with their file', async () => {
    write('domains.csv', 'domain,group,ownership,brand_terms\nSHOP.com,Shoes,own,acme|Shop\nrival.com,"Shoes, big",competitor,\n')
    write('categories.csv', '# ours\ncategory_id,name\n12,Running shoes\n')
    expect(await apply()).toEqual({ changed: 3, ended: 0 })
    expect(await db.query('select domain, domain_group, ownership, brand_terms from bi.domains order by 1')).toEqual([
      { domain: 'other.com', domain_group: '(none)', ownership: '(none)', brand_terms: null },
      { domain: 'rival.com', domain_group: 'Shoes, big', ownership: 'competitor', brand_terms: null },
      { domain: 'shop.com', domain_group: 'Shoes', ownership: 'own', brand_terms: ['acme', 'shop'] },
    ])
    expect(await db.query('select name from bi.dim_category')).toEqual([{ name: 'Running shoes' }])
    expect(await apply()).toEqual({ changed: 0, ended: 0 })
    write('domains.csv', 'domain,group,ownership,brand_terms\nshop.com,Boots,own,acme|shop\n')
    expect(await apply()).toEqual({ changed: 1, ended: 1 })
    expect(
      await db.query(
        `select value, attributes ->> 'group' as g, valid_to is null as now from bi.attribute_versions where subject = 'domain' order by 1, valid_from`,
      ),
    ).toEqual([
      { value: 'rival.com', g: 'Shoes, big', now: false },
      { value: 'shop.com', g: 'Shoes', now: false },
      { value: 'shop.com', g: 'Boots', now: true },
    ])
    // No moment at which the shop has no group.
    expect(
      await db.query(`select a.value from bi.attribute_versions a join bi.attribute_versions b using (subject, value)
        where b.valid_from = a.valid_to`),
    ).toEqual([{ value: 'shop.com' }])
    rmSync(join(folder, 'attributes', 'domains.csv'))
    await db.query(`insert into bi.dim_category (category_id, name) values (14, 'written by hand')`)
    expect(await apply()).toEqual({ changed: 0, ended: 1 })
    // A name stands as long as its line does; what nobody's file ever said is left alone.
    expect(await db.query('select name from bi.dim_category order by category_id')).toEqual([
      { name: 'Running shoes' },
      { name: 'written by hand' },
    ])
    rmSync(join(folder, 'attributes', 'categories.csv'))
    expect(await apply()).toEqual({ changed: 0, ended: 1 })
    expect(await db.query('delete from bi.dim_category where category_id = 14 returning name')).toEqual([
      { name: 'written by hand' },
    ])
    expect(await db.query('select name from bi.dim_category')).toEqual([{ name: null }])
  })

  test('give share of voice by group, clicks by brand terms and by type of page', async () => {
    write('domains.csv', 'domain,group,ownership,brand_terms\nshop.com,Us,own,acme\nrival.com,Them,competitor,\n')
    write('page_types.csv', 'pattern,page_type\n*/p/*,product\n*/guide_*,guide\n*/guide*,draft\n')
    await apply()
    expect(
      await db.query(
        `select ownership, count(*)::int as domains, sum(clicks)::int as clicks, max(clicks_followed)::int as clicks_all, sum(share_of_voice)::float8 as share
          from bi.domain_share_of_voice group by 1 order by 1`,
      ),
    ).toEqual([
      { ownership: '(none)', domains: 1, clicks: 100, clicks_all: 600, share: 0.166667 },
      { ownership: 'competitor', domains: 1, clicks: 300, clicks_all: 600, share: 0.5 },
      { ownership: 'own', domains: 1, clicks: 200, clicks_all: 600, share: 0.333333 },
    ])
    expect(
      await db.query(
        `select domain_group, sum(clicks)::int as clicks, max(clicks_all)::int as clicks_all from bi.keyword_share_of_voice join bi.domains using (domain)
          where keyword = 'shoes' group by 1 order by 1`,
      ),
    ).toEqual([
      { domain_group: '(none)', clicks: 100, clicks_all: 500 },
      { domain_group: 'Them', clicks: 300, clicks_all: 500 },
      { domain_group: 'Us', clicks: 100, clicks_all: 500 },
    ])
    expect(await db.query('select domain, clicks_brand::int, clicks_other::int from bi.keyword_brand_terms')).toEqual([
      { domain: 'shop.com', clicks_brand: 50, clicks_other: 150 },
    ])
    expect(
      await db.query(`select page_type, pages::int, clicks::int from bi.keyword_page_types where domain = 'shop.com' order by 1`),
    ).toEqual([
      { page_type: 'draft', pages: 1, clicks: 20 },
      { page_type: 'guide', pages: 1, clicks: 30 },
      { page_type: 'product', pages: 2, clicks: 150 },
    ])
  })

  test('narrow every chart by domain of the dashboards to a group, and name categories', async () => {
    write('domains.csv', 'domain,group,ownership\nshop.com,Us,own\n')
    write('categories.csv', 'category_id,name\n12,Running shoes\n')
    await apply()
    const dashboards = await loadDashboards([])
    const narrowed = dashboards.map(({ filters }) =>
      filters.flatMap((one) => (one.kind === 'value' && ['domain_group', 'ownership'].includes(one.column) ? one.column : [])),
    )
    // Of the five, operators' tables are not by domain, and the summary has room for one of the two.
    expect(narrowed.map((columns) => columns.length).sort()).toEqual([0, 1, 2, 2, 2])
    const charts = dashboards.flatMap(({ charts }) => charts)
    const byDomain = charts.filter(({ by, kind }) => by.includes('domain') || kind === 'tile')
    expect(byDomain.length).toBeGreaterThan(15)
    for (const view of new Set(byDomain.map((chart) => chart.view)))
      expect(await db.query(`select distinct domain_group, ownership from bi.${view} where domain = 'shop.com'`), view).toEqual([
        { domain_group: 'Us', ownership: 'own' },
      ])
    expect(
      await db.query(`select domain, domain_group, clicks::int from bi.keyword_domains where ownership = '(none)' order by 1`),
    ).toEqual([
      { domain: 'other.com', domain_group: '(none)', clicks: 100 },
      { domain: 'rival.com', domain_group: '(none)', clicks: 300 },
    ])
    expect(await db.query('select category_id::int, category from bi.shopper_funnel order by 1')).toEqual([
      { category_id: 12, category: 'Running shoes' },
      { category_id: 13, category: '13' },
    ])
  })

  test('come from a query, too, which may only read what readers read; one that gives no row changes nothing', async () => {
    write(
      'domains.sql',
      `select domain, 'All of them' as "group", case domain when 'shop.com' then 'own' end as ownership from bi.dim_domain`,
    )
    await apply()
    expect(await db.query(`select domain_group, ownership from bi.domains where domain = 'shop.com'`)).toEqual([
      { domain_group: 'All of them', ownership: 'own' },
    ])
    write('domains.sql', 'select domain from bi.dim_domain where false')
    await expect(apply()).rejects.toThrow(/domains\.sql: it gives no row; the attributes stay as they were/)
    write('domains.sql', `select domain, 'mine' as ownership from bi.dim_domain order by 1`)
    await expect(apply()).rejects.toThrow(/domains\.sql, row 1: ownership is 'mine'; expected one of own, competitor/)
    write('domains.sql', 'select unit_id from etl.units')
    await expect(apply()).rejects.toThrow(/domains\.sql: permission denied/)
    expect(await db.query(`select domain_group from bi.domains where domain = 'shop.com'`)).toEqual([
      { domain_group: 'All of them' },
    ])
  })

  test('with mistakes are refused with file and line, all of them at once', async () => {
    write('domains.csv', 'domain,group,Group\nshop.com,A\nnot a domain,B,C\nshop.com,A,B\n')
    write('more.csv', 'domian,group\na.com,A\n')
    write('open.csv', 'country,x\nus,"a\n')
    const { sets, problems } = await found()
    expect(sets).toEqual([])
    const shown = problems.map(showProblem).map((line) => line.replace(/^.*attributes\//, ''))
    expect(shown).toEqual([
      expect.stringMatching(/^domains\.csv:1:1: 'Group' cannot name an attribute/),
      expect.stringMatching(/^domains\.csv:2:1: 2 cells, the header has 3/),
      expect.stringMatching(/^domains\.csv:3:1: domain: 'not a domain' is not a bare domain/),
      expect.stringMatching(/^domains\.csv:4:1: 'shop\.com' is in line 2 already/),
      expect.stringMatching(/^more\.csv:1:1: the first column is 'domian'; .*Did you mean 'domain'/),
      expect.stringMatching(/^open\.csv:\d+:1: not valid CSV/),
    ])
  })

  test('are read as people’s spreadsheets write them, or refused with the way out, and never half', async () => {
    write('domains.csv', '\ufeffdomain,group\r\nshop.com,C# shops\r\n#rival.com,not now\r\nother.com,#1\r\n')
    write('categories.csv', 'category_id,name\n012,=cmd()\n')
    await apply()
    expect(await db.query(`select domain, domain_group from bi.domains order by 1`)).toEqual([
      { domain: 'other.com', domain_group: '#1' },
      { domain: 'rival.com', domain_group: '(none)' },
      { domain: 'shop.com', domain_group: 'C# shops' },
    ])
    expect(await db.query('select name from bi.dim_category')).toEqual([{ name: '=cmd()' }])
    const mistakes: readonly (readonly [file: string, text: string | Buffer, says: RegExp])[] = [
      ['domains.csv', Buffer.from('domain,group\nshop.com,Möbel\n', 'latin1'), /:1:1: not UTF-8/],
      ['domains.csv', Buffer.from('\ufeffdomain,group\nshop.com,X\n', 'utf16le'), /:1:1: not UTF-8/],
      ['domains.csv', 'domain,group\nshop.com,a\0b\n', /:1:1: not UTF-8/],
      ['domains.csv', 'domain;group\nshop.com;X\n', /separated by semicolons: save it with commas/],
      ['domains.csv', 'domain\tgroup\nshop.com\tX\n', /separated by tabs: save it with commas/],
      ['domains.csv', 'domain,group\n', /no line below the header\. Delete the file to end its attributes/],
      ['domains.csv', '', /the first column is ''/],
      ['domains.csv', 'domain,group\nshop.com,X\nSHOP.com,Y\n', /:3:1: 'shop\.com' is in line 2 already/],
      ['categories.csv', 'category_id,name\n12,A\n012,B\n', /:3:1: '12' is in line 2 already/],
      ['page_types.csv', 'pattern,page_type,place\n*,a,1\n', /'place' cannot name an attribute/],
      ['page_types.csv', `pattern,page_type\n${patterns(1_001)}`, /:1002:1: 1,001 patterns.*at most 1,000/],
      ['domains.xlsx', 'PK', /attributes are read from \*\.csv and \*\.sql/],
      ['domains.CSV', 'domain\n', /attributes are read from \*\.csv and \*\.sql/],
    ]
    rmSync(join(folder, 'attributes'), { recursive: true })
    for (const [file, text, says] of mistakes) {
      mkdirSync(join(folder, 'attributes'))
      writeFileSync(join(folder, 'attributes', file), text)
      expect((await found()).problems.map(showProblem).join(), String(text)).toMatch(says)
      await expect(apply()).rejects.toMatchObject({ code: 'DEFINITION' })
      rmSync(join(folder, 'attributes'), { recursive: true })
    }
    expect(await db.query(`select domain_group from bi.domains where domain = 'shop.com'`)).toEqual([
      { domain_group: 'C# shops' },
    ])
    expect(await apply()).toMatchObject({ ended: 3 })
  })
})
