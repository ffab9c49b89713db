# SQL of metrics as dbt's MetricFlow compiles them: questions as a JSON list on standard input, statements as a JSON list on standard output.
# Run in a folder with dbt_project.yml and profiles.yml.
import json
import sys

from dbt_metricflow.cli.cli_configuration import CLIConfiguration
from metricflow.engine.metricflow_engine import MetricFlowQueryRequest

configuration = CLIConfiguration()
configuration.setup(configure_file_logging=False)
engine = configuration.mf
answers = []
for question in json.load(sys.stdin):
    try:
        request = MetricFlowQueryRequest.create(
            metric_names=question["metrics"],
            group_by_names=question["by"] or None,
            where_constraints=question["where"] or None,
            order_by_names=question["order"] or None,
            limit=question["limit"],
            order_output_columns_by_input_order=True,
        )
        answers.append({"sql": engine.explain(request).sql_statement.sql})
    except Exception as error:  # what it says is the answer
        answers.append({"error": str(error)})
json.dump(answers, sys.stdout)
