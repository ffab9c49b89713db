// What a reader of the catalog is told of the ledger: every table and column of etl. Frozen once released; imports nothing of ours.
import { type Kysely, sql } from 'kysely'

type About = readonly [about: string, columns: Readonly<Record<string, string>>]

const unitOfRow = 'The unit: etl.units.'
const runOfRow = 'The run: etl.runs.'
const edition = 'How often the unit had been asked for anew by then, from 1.'
const landing = 'Where the raw bytes lie, as a name under the landing folder or bucket; NULL where none were kept.'
const sha256 = 'SHA-256 of the raw bytes in hexadecimal.'
const bytes = 'Size of the raw bytes before compression. Unit: bytes.'
const account = 'Name of the key the service was asked with; default is WEB_ANALYTICS_API_KEY. Never the key.'
const sourceLastUpdated = 'The last_updated the service gave with the answer, as it wrote it.'
const sourceCount = 'How many rows the service said there are; NULL where it does not say. Unit: rows.'

const tables: Readonly<Record<string, About>> = {
  runs: [
    'One row a run: an invocation that works on units.',
    {
      run_id: 'Number of the run.',
      command: 'The command: run, backfill, replay, schedule, demo and so on.',
      arguments: 'What the command was started with; never a key.',
      state: 'running, done, failed (some units failed or are held), cancelled or interrupted.',
      host: 'Machine it runs or ran on.',
      process_id: 'Its process on that machine.',
      started_at: 'When it began.',
      finished_at: 'When it ended; NULL while it runs.',
      cancel_requested_at: 'When somebody asked it to stop; NULL where nobody did.',
      summary: 'The numbers it ended with: units, rows, requests, reports, quota, bytes, seconds.',
    },
  ],
  units: [
    'One row a unit: pipeline, window and slice, the smallest thing that is planned, run, retried and proved complete.',
    {
      unit_id: 'Number of the unit; data rows name it as _unit_id.',
      unit_key: 'Pipeline, version, window and slice as one text; the same input gives the same key.',
      pipeline: 'The pipeline.',
      version: "The pipeline's version.",
      window_from: 'First day of the window.',
      window_to: 'The day after the last day of the window.',
      slice: 'What it is loaded for: a value or a bucket of values for each dimension.',
      state: 'planned, running, waiting, landed, loaded, failed (tried again by the next run) or held (waits for a person).',
      edition: 'How often the unit was asked for anew, from 1; reports are used again within an edition only.',
      attempts: 'Tries of the current edition that cost an attempt.',
      fence: 'Grows with each claim; a write that names an older one changes nothing.',
      lease_owner: 'The process that works on it; NULL while nobody does.',
      lease_until: 'Until when that process is believed without a sign of life.',
      not_before: 'Not tried again before; NULL: at once.',
      error_code: 'Code of the last error, as in docs/operations.md; NULL where there is none.',
      error_message: 'What went wrong and what to do about it.',
      released: 'Whether a person allowed the held unit to load as it is.',
      forced: 'Whether it is to be loaded again even where nothing changed.',
      run_id: 'The last run that worked on it: etl.runs.',
      landing: `${landing} Of the current edition.`,
      landing_sha256: sha256,
      landing_bytes: bytes,
      loaded_at: 'When it was last loaded; NULL: never.',
      loaded_edition: 'The edition its rows come from.',
      loaded_load_id: 'The load its rows come from: etl.loads.',
      loaded_rows: 'Its current rows. Unit: rows.',
      loaded_sha256: 'SHA-256 of the raw bytes its rows were made from.',
      loaded_landing: 'Where the raw bytes lie that its rows were made from.',
      source_last_updated: sourceLastUpdated,
      source_count: sourceCount,
      checked_at: 'When the service was last asked whether the unit changed.',
      created_at: 'When it was first planned.',
      updated_at: 'When this row last changed.',
    },
  ],
  run_units: [
    'One row a run and unit: what the run took on and how it ended.',
    {
      run_id: runOfRow,
      unit_id: unitOfRow,
      edition,
      outcome: 'loaded, unchanged, waiting, held or failed; NULL while undecided.',
      finished_at: 'When the outcome was known.',
    },
  ],
  reports: [
    'One row a report bought or about to be bought at the service; never bought twice within an edition.',
    {
      report_key: 'Number of the report here.',
      unit_id: unitOfRow,
      edition,
      submission: 'Which submission of the edition, from 1.',
      run_id: 'The run that submitted it: etl.runs.',
      account,
      pipeline: 'The pipeline.',
      endpoint: 'Path of the service it is submitted to, without host and key.',
      request_hash: 'Hash of the request, by which the same one is known again.',
      request: 'The request as submitted, without the key.',
      state: 'intent (about to be sent), submitted, ready, downloaded, failed, rejected, uncertain (answer lost) or expired.',
      report_id: "The service's id of the report; NULL until it is known.",
      status_word: "The service's own last word on its state.",
      polls: 'How often its state was asked for.',
      next_poll_at: 'Not asked for again before.',
      retries: 'How often the service was asked, free of charge, to make it again.',
      estimated_quota: 'What it was expected to cost. Unit: credits.',
      used_quota: 'What the service said it cost; NULL while unknown. Unit: credits.',
      data_points_count: 'How many data points the service said it holds.',
      error_message: 'Why it failed or was rejected.',
      created_at: 'When the intent was written, before anything was sent.',
      submitted_at: 'When the service took it.',
      completed_at: 'When the service called it done.',
      deadline_at: 'When waiting for it ends.',
      updated_at: 'When this row last changed.',
    },
  ],
  requests: [
    'One row a request sent to the service: each attempt of a page, submission, poll or download.',
    {
      request_id: 'Number of the request.',
      run_id: 'The run that sent it: etl.runs; NULL outside a run.',
      unit_id: 'The unit it was sent for: etl.units; NULL where it is for none.',
      edition,
      account,
      method: 'HTTP method.',
      endpoint: 'Path at the service, without host and key.',
      parameters: 'Parameters without the key.',
      part: 'Which part of the unit, from 1; NULL where it brings none.',
      attempt: 'Which attempt, from 1.',
      status: 'HTTP status; NULL where no answer came.',
      error_code: 'Code of the error, as in docs/operations.md; NULL where it went well.',
      bytes: 'Size of the answer. Unit: bytes.',
      sha256: 'SHA-256 of the answer in hexadecimal; NULL where it was not kept.',
      started_at: 'When it was sent.',
      milliseconds: 'From sending to the end of the answer. Unit: milliseconds.',
    },
  ],
  loads: [
    'One row a load: what one edition of a unit did to the table, committed together with the rows themselves.',
    {
      load_id: 'Number of the load.',
      unit_id: unitOfRow,
      edition,
      run_id: runOfRow,
      report_key: 'The report it was made from: etl.reports; NULL where it was made from pages.',
      outcome: 'loaded, or unchanged where the service had nothing new.',
      landing,
      landing_sha256: sha256,
      landing_bytes: bytes,
      source_last_updated: sourceLastUpdated,
      source_count: sourceCount,
      rows_read: 'Rows in the answer: inserted, updated, unchanged, quarantined and duplicates together. Unit: rows.',
      rows_inserted: 'Rows that were new. Unit: rows.',
      rows_updated: 'Rows that got another value; the old one went to history. Unit: rows.',
      rows_ended: 'Rows missing from the answer; they went to history. Unit: rows.',
      rows_unchanged: 'Rows that stood there already. Unit: rows.',
      rows_quarantined: 'Rows that were rejected: etl.quarantine. Unit: rows.',
      rows_duplicates: 'Rows that came more than once, without the one that was kept. Unit: rows.',
      drift: 'How the answer differed in shape from the definition; NULL where it did not.',
      loaded_at: 'When it was loaded.',
      milliseconds: 'How long it took. Unit: milliseconds.',
    },
  ],
  quarantine: [
    'One row a rejected row, with the raw record and the reason.',
    {
      quarantine_id: 'Number of the rejected row.',
      unit_id: unitOfRow,
      edition,
      run_id: runOfRow,
      pipeline: 'The pipeline.',
      landing: `${landing} The record lies in it.`,
      part: 'Which part of the landing, from 1.',
      line: 'Which line or record of the part, from 1.',
      column_name: 'The column that was refused; NULL where it was the whole record.',
      reason: 'Why it was refused.',
      raw: 'The record as it came.',
      state: 'open; superseded: a later load of the unit answers for it; resolved: put right.',
      created_at: 'When it was refused.',
      resolved_at: 'When it was no longer open.',
    },
  ],
  events: [
    'One row a thing a person did from outside a run: released or retried a unit, cancelled a run.',
    {
      event_id: 'Number of the event.',
      at: 'When it happened.',
      kind: 'released, retried or cancelled.',
      pipeline: 'The pipeline; NULL where it concerns none.',
      unit_id: 'The unit: etl.units; NULL where it concerns none.',
      run_id: 'The run: etl.runs; NULL where it concerns none.',
      report_key: 'The report: etl.reports; NULL where it concerns none.',
      message: 'What happened, in words.',
      details: 'The same for machines.',
    },
  ],
  ticks: [
    'One row a scheduled moment of a pipeline, so that it happens once however many schedulers run.',
    {
      pipeline: 'The pipeline.',
      due_at: 'The moment its schedule names.',
      claimed_by: 'The scheduler that took it.',
      claimed_at: 'When it was taken.',
      kind: 'on time, caught up (after a time nobody ran) or skipped.',
      run_id: 'The run it started: etl.runs; NULL where it started none.',
      finished_at: 'When that run ended.',
    },
  ],
  notifications: [
    'One row a cause that somebody ought to know of; open until it is gone.',
    {
      notification_id: 'Number of the notification.',
      cause: 'What it is about; a cause is open once at most.',
      kind: 'failure, held, late, drift, quarantine or quota.',
      pipeline: 'The pipeline; NULL where it concerns none.',
      message: 'What is the matter and what to do, in words.',
      details: 'The same for machines.',
      raised_at: 'When it was first seen.',
      resolved_at: 'When it was gone; NULL while it is open.',
    },
  ],
  deliveries: [
    'One row a notification, target and event: what was sent to whom.',
    {
      notification_id: 'The notification: etl.notifications.',
      target: 'Name of the target, never its address.',
      event: 'raised or resolved.',
      attempts: 'How often it was tried.',
      next_at: 'Not tried again before.',
      sent_at: 'When the target took it; NULL while it did not.',
      last_error: 'Why the last try failed.',
    },
  ],
  rate_windows: [
    "The window of time in which each account's requests are counted now; one row an account.",
    {
      key: 'requests: and the name of the account; never its key.',
      points: 'Requests counted in the window.',
      expire: 'When the window ends. Unit: milliseconds since 1970.',
    },
  ],
  kysely_migration: [
    'One row a migration that was applied.',
    { name: 'Its file, without the ending.', timestamp: 'When it was applied, as ISO text.' },
  ],
  kysely_migration_lock: [
    'One row that migrations lock, so that two never run at once.',
    { id: 'Always migration_lock.', is_locked: '1 where a migration holds it; the lock that counts is the row lock.' },
  ],
}

const quota: About = [
  'Credits spent and reserved. One row an account, pipeline and day (UTC).',
  {
    account,
    pipeline: 'The pipeline.',
    day: 'The day the reports were asked for, in UTC.',
    reports: 'Reports sent. Unit: reports.',
    used_quota: 'What the service said they cost; NULL while it said nothing. Unit: credits.',
    reserved_quota: 'What reports of unknown price are expected to cost, 1 where even that is unknown. Unit: credits.',
  },
]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  const comment = async (kind: 'table' | 'view', name: string, [about, columns]: About): Promise<void> => {
    await sql`comment on ${sql.raw(kind)} ${sql.table(`etl.${name}`)} is ${sql.lit(about)}`.execute(database)
    for (const [column, text] of Object.entries(columns))
      await sql`comment on column ${sql.ref(`etl.${name}.${column}`)} is ${sql.lit(text)}`.execute(database)
  }
  for (const [name, about] of Object.entries(tables)) await comment('table', name, about)
  await comment('view', 'quota', quota)
}
