# The report as a dlt pipeline: submitted, polled, downloaded, merged by its key. Run by bench/peers/run.ts.
import csv
import json
import os
import time

import dlt
import requests

base, headers = os.environ["PEER_SERVICE"], {"api-key": os.environ["PEER_KEY"]}
key = ["date", "domain", "country", "referrer"]
columns = {
    "date": {"data_type": "date"},
    "referral_visits": {"data_type": "decimal"},
    "referral_share": {"data_type": "decimal"},
}


@dlt.resource(name="referrals", write_disposition={"disposition": "merge", "strategy": "upsert"}, primary_key=key, columns=columns)
def referrals():
    asked = requests.post(f"{base}/batch/v4/request-report", headers=headers, json=json.loads(os.environ["PEER_REQUEST"]))
    asked.raise_for_status()
    report = asked.json()["report_id"]
    while True:
        answer = requests.get(f"{base}/v3/batch/request-status/{report}", headers=headers).json()
        if answer["status"] == "completed":
            break
        time.sleep(0.2)
    with requests.get(answer["download_url"], stream=True) as body:
        body.raise_for_status()
        rows = []
        for row in csv.DictReader(body.iter_lines(decode_unicode=True)):
            rows.append({name: None if value == "" else value for name, value in row.items()})
            if len(rows) == 10_000:
                yield rows
                rows = []
        yield rows


pipeline = dlt.pipeline("peer", destination=dlt.destinations.postgres(os.environ["PEER_DATABASE"]), dataset_name="peer")
pipeline.run(referrals())
