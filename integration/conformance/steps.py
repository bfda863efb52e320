"""What the tasks of random DAGs do when they really run.

Every answer comes from script.json beside this file: how each try of each task
instance ends, what it returns, what a branch follows.
"""

import json
import os


def plan(context):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "script.json"), encoding="utf-8") as f:
        script = json.load(f)
    ti = context["ti"]
    return script[ti.dag_id][ti.task_id], ti


def end(context):
    """Ends this try as the script says, and gives the step when it ends well."""
    step, ti = plan(context)
    outcomes = step["outcomes"].get(str(ti.map_index)) or step["outcomes"]["-1"]
    outcome = outcomes[min(ti.try_number, len(outcomes)) - 1]
    if outcome == "ok":
        return step
    if outcome == "fail":
        raise RuntimeError("the script fails this try")
    from airflow.exceptions import AirflowFailException, AirflowSkipException

    raise (AirflowSkipException if outcome == "skip" else AirflowFailException)("the script ends this try")


def act(*_args, **context):
    return end(context)["returns"]


def choose(**context):
    return end(context)["follow"]


def ask(**context):
    return end(context)["condition"]
