"""Answers for Airflow: python main.py request.json answers.jsonl

Each case of the request gives one line of answers.
"""

import json
import sys
import traceback

import settings


def main(request_path, answers_path):
    with open(request_path, encoding="utf-8") as f:
        request = json.load(f)
    settings.prepare(request["home"], request["template"])
    answer = Answers(request)
    with open(answers_path, "w", encoding="utf-8") as out:
        out.write(json.dumps({"versions": settings.versions()}) + "\n")
        for path in request.get("corpus") or ():
            out.write(json.dumps(corpus(path)) + "\n")
        for case in request["cases"] or ():
            try:
                line = answer(case)
            except Exception as e:
                line = {"error": "%s: %s" % (type(e).__name__, e), "trace": traceback.format_exc(limit=-6)}
            line["dag_id"] = case["dag_id"]
            out.write(json.dumps(line) + "\n")
            out.flush()


def corpus(path):
    """The structure of every DAG of a file, or why dag-factory does not load it."""
    import loading

    line = {"dag_id": "file:" + path, "file_dags": {}}
    try:
        for dag_id, dag in loading.from_yaml(path, {}).items():
            line["file_dags"][dag_id] = loading.structure(loading.scheduler_dag(dag))
    except BaseException as e:
        line["error"] = "%s: %s" % (type(e).__name__, str(e)[:300])
    return line


class Answers:
    def __init__(self, request):
        from airflow.models.dagbundle import DagBundleModel
        from airflow.utils.session import create_session

        import clock

        self.clock = clock.Frozen()
        self.bundle = "conformance"
        self.create_session = create_session
        with create_session() as session:
            session.merge(DagBundleModel(name=self.bundle))
        self.files = {}

    def __call__(self, case):
        import clock
        import driving
        import loading

        dags = self.files.get(case["file"])
        if dags is None:
            dags = self.files[case["file"]] = loading.from_yaml(case["file"], case["extras"], case.get("rules") or ())
        dag = dags[case["dag_id"]]
        core = loading.scheduler_dag(dag)
        line = {"structure": loading.structure(core)}
        if case.get("jumps"):
            if "wall-steps" in (case.get("rules") or ()):
                clock.Ticks.switch_on()
                clock.Ticks.fired = set()
            line["runs"] = clock.planned_runs(self.clock, core, case["clock"], case["jumps"])
        if case.get("manual"):
            line["manual"] = [clock.manual_interval(core, at) for at in case["manual"]]
        line["fired"] = sorted(clock.Ticks.fired)
        if case.get("retries"):
            line["retries"] = [clock.retry_delay(core, q) for q in case["retries"]]
        if case.get("scopes"):
            line["scopes"] = [loading.cleared_together(core, q) for q in case["scopes"]]
        if case.get("script"):
            with self.create_session() as session:
                line["states"] = driving.Drive(session, dag, case, self.bundle).to_the_end()
                session.rollback()
        if case.get("campaign"):
            with self.create_session() as session:
                line["campaign"] = driving.Campaign(session, dag, case, self.bundle).act()
                session.rollback()
        return line


if __name__ == "__main__":
    main(*sys.argv[1:])
