"""Runs DAGs in process with Airflow's own scheduling code.

Airflow decides: its dependency checks, expansion of mapped tasks, skip lists,
retry eligibility, fail_fast and the state of the run are all its own code on its
own metadata database. Only the work of a task is replaced, by a script that says
how each attempt ends; the branch and short-circuit operators really execute.
"""

import datetime

from clock import parse
from loading import scheduler_dag
from rules import Rules

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
MAX_ROUNDS = 200


class Drive:
    def __init__(self, session, dag, case, bundle):
        self.session, self.dag, self.case = session, dag, case
        self.script = case["script"]
        self.rules = Rules(self, case.get("rules") or ())
        self.scheduler_dag = scheduler_dag(dag)
        self.store(bundle)

    def store(self, bundle):
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.serialization.definitions.dag import SerializedDAG
        from airflow.serialization.serialized_objects import LazyDeserializedDAG
        from airflow.utils.state import DagRunState
        from airflow.utils.types import DagRunTriggeredByType, DagRunType

        lazy = LazyDeserializedDAG.from_dag(self.dag)
        SerializedDAG.bulk_write_to_db(bundle, None, [lazy], session=self.session)
        SerializedDagModel.write_dag(lazy, bundle_name=bundle, session=self.session)
        self.session.flush()
        logical = parse(self.case["logical_date"])
        self.run = self.scheduler_dag.create_dagrun(
            run_id="conformance",
            logical_date=logical,
            data_interval=(logical, logical),
            run_after=logical,
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            start_date=LONG_AGO,
            session=self.session,
        )
        self.run.dag = self.scheduler_dag
        self.session.flush()

    def to_the_end(self):
        """Settles, runs all that is ready at once, and settles again."""
        from airflow.utils.state import DagRunState

        for _ in range(MAX_ROUNDS):
            self.settle()
            if self.run.state != DagRunState.RUNNING:
                return self.result()
            ready = [ti for ti in self.instances() if ti.state == "scheduled"]
            if not ready:
                return self.result("stuck")
            for ti in ready:
                ti.state = "running"
            self.session.flush()
            for ti in ready:
                self.attempt(ti)
        return self.result("endless")

    def instances(self):
        self.session.expire_all()
        found = self.run.get_task_instances(session=self.session)
        for ti in found:
            ti.task = self.scheduler_dag.get_task(ti.task_id)
        return sorted(found, key=lambda ti: (ti.task_id, ti.map_index))

    def settle(self):
        """Repeats the scheduler's pass until it has nothing to add."""
        from airflow.utils.state import DagRunState

        before = self.signature()
        for _ in range(MAX_ROUNDS):
            self.rules.before_pass()
            self.session.expire_all()
            ready, _ = self.run.update_state(session=self.session, execute_callbacks=False)
            self.run.schedule_tis(ready, session=self.session)
            self.session.flush()
            after = self.signature()
            if self.run.state != DagRunState.RUNNING or after == before:
                return
            before = after

    def signature(self):
        from airflow.models.taskinstance import TaskInstance as TI
        from sqlalchemy import select

        rows = select(TI.task_id, TI.map_index, TI.state).where(TI.dag_id == self.run.dag_id, TI.run_id == self.run.run_id)
        return {(task_id, map_index): state for task_id, map_index, state in self.session.execute(rows)}

    def attempt(self, ti):
        """Ends an attempt as the script says."""
        self.session.refresh(ti)
        if ti.state != "running":
            return  # fail_fast ended it meanwhile
        plan = self.script[ti.task_id]
        outcomes = plan["outcomes"].get(str(ti.map_index)) or plan["outcomes"]["-1"]
        outcome = outcomes[min(ti.try_number, len(outcomes)) - 1]
        ti.start_date = ti.end_date = LONG_AGO  # so that every retry is due
        if outcome == "ok":
            self.succeed(ti, plan)
        elif outcome == "skip":
            ti.state = "skipped"
        else:
            self.fail(ti, outcome)
        self.session.flush()

    def succeed(self, ti, plan):
        kind = plan["kind"]
        if kind in ("branch", "short_circuit"):
            try:
                self.execute(ti, plan)
            except Exception:  # what the operator itself refuses, such as a branch to no task
                self.fail(ti, self.rules.mistake())
                return
        else:
            value = plan.get("returns") if kind == "python" else None
            mapped_over = next(self.dag.task_dict[ti.task_id].iter_mapped_dependants(), None) is not None
            if value is None and mapped_over and ti.map_index < 0:
                self.fail(ti, self.rules.mistake())  # XComForMappingNotPushed in the worker
                return
            if value is not None:
                self.push(ti, "return_value", value)
                if mapped_over and ti.map_index < 0:
                    self.task_map(ti, value)
        ti.state = "success"

    def execute(self, ti, plan):
        """Executes a branch or short circuit and does what the API server does
        with the tasks that it wants skipped."""
        from airflow.api_fastapi.execution_api.datamodels.taskinstance import TISkippedDownstreamTasksStatePayload
        from airflow.api_fastapi.execution_api.routes.task_instances import ti_skip_downstream
        from airflow.sdk.exceptions import DownstreamTasksSkipped

        task = self.dag.task_dict[ti.task_id]
        answer = plan["follow"] if plan["kind"] == "branch" else plan["condition"]
        task.python_callable = lambda: answer
        context = {"ti": Runtime(self, ti, task), "task": task, "dag": self.dag, "dag_run": self.run, "params": {}}
        try:
            task.execute(context)
        except DownstreamTasksSkipped as e:
            tasks = [(t, -1) if isinstance(t, str) else tuple(t) for t in e.tasks]
            tasks = self.rules.skippable(tasks)
            self.session.flush()
            payload = TISkippedDownstreamTasksStatePayload(tasks=tasks)
            ti_skip_downstream(ti.id, payload, self.session)

    def push(self, ti, key, value):
        from airflow.models.xcom import XComModel

        XComModel.set(
            key, value, dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=ti.map_index, session=self.session
        )

    def task_map(self, ti, value):
        from airflow.models.taskmap import TaskMap

        keys = list(value) if isinstance(value, dict) else None
        self.session.merge(
            TaskMap(
                dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=ti.map_index, length=len(value), keys=keys
            )
        )

    def fail(self, ti, outcome):
        from airflow.api_fastapi.execution_api.routes.task_instances import _is_eligible_to_retry
        from airflow.models.taskinstance import _stop_remaining_tasks

        if outcome == "fail" and _is_eligible_to_retry(ti.state, ti.try_number, ti.max_tries):
            ti.state = "up_for_retry"
            return
        ti.state = "failed"
        self.session.flush()
        if self.dag.fail_fast and not self.rules.stops_gently(ti):
            teardowns = {k: v.is_teardown for k, v in self.scheduler_dag.task_dict.items()}
            _stop_remaining_tasks(task_instance=ti, task_teardown_map=teardowns, session=self.session)

    def result(self, note=None):
        states = {}
        tries = {}
        for ti in self.instances():
            key = "%s[%d]" % (ti.task_id, ti.map_index)
            states[key] = str(ti.state.value if hasattr(ti.state, "value") else ti.state or "none")
            tries[key] = ti.try_number
        run = note or str(getattr(self.run.state, "value", self.run.state))
        return {"run": run, "states": states, "tries": tries, "fired": sorted(self.rules.fired)}


class Runtime:
    """What an operator asks of its task instance while it executes."""

    def __init__(self, drive, ti, task):
        self._drive, self._ti, self.task, self.map_index = drive, ti, task, ti.map_index
        self.dag_id, self.task_id, self.run_id = ti.dag_id, ti.task_id, ti.run_id

    def xcom_push(self, key, value, **_):
        self._drive.push(self._ti, key, value)
