"""Runs DAGs in process with Airflow's own scheduling code.

Airflow decides: its dependency checks, expansion of mapped tasks, skip lists,
retry eligibility, fail_fast and the state of the run are all its own code on its
own metadata database. Only the work of a task is replaced, by a script that says
how each attempt ends; the branch and short-circuit operators really execute.
"""

import datetime
import graphlib

from clock import parse
from loading import cleared_together, scheduler_dag
from rules import ENDED, Rules

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
MAX_ROUNDS = 200


class Drive:
    def __init__(self, session, dag, case, bundle):
        self.session, self.dag, self.case = session, dag, case
        self.script = case.get("script")
        self.rules = Rules(self, case.get("rules") or ())
        self.scheduler_dag = scheduler_dag(dag)
        self.poked = {}  # how often a sensor's try has looked
        self.waiting = {}  # by run, instances that wait, or come back from it
        self.store(bundle)
        self.begin()

    def begin(self):
        self.run = self.make_run("conformance", self.case["logical_date"], "scheduled")

    def store(self, bundle):
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.serialization.definitions.dag import SerializedDAG
        from airflow.serialization.serialized_objects import LazyDeserializedDAG

        lazy = LazyDeserializedDAG.from_dag(self.dag)
        SerializedDAG.bulk_write_to_db(bundle, None, [lazy], session=self.session)
        SerializedDagModel.write_dag(lazy, bundle_name=bundle, session=self.session)
        self.session.flush()

    def make_run(self, run_id, logical, run_type):
        from airflow.utils.state import DagRunState
        from airflow.utils.types import DagRunTriggeredByType, DagRunType

        logical = parse(logical)
        run = self.scheduler_dag.create_dagrun(
            run_id=run_id,
            logical_date=logical,
            data_interval=(logical, logical),
            run_after=logical,
            run_type=DagRunType(run_type),
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            start_date=LONG_AGO,
            session=self.session,
        )
        run.dag = self.scheduler_dag
        self.session.flush()
        self.rules.leave_out(run)
        return run

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
            if "settles-at-once" in self.rules.on:
                self.go_down()
            ready, _ = self.run.update_state(session=self.session, execute_callbacks=False)
            self.run.schedule_tis(ready, session=self.session)
            self.session.flush()
            self.rules.after_pass()
            after = self.signature()
            if self.run.state != DagRunState.RUNNING or after == before:
                return
            before = after

    def go_down(self):
        """The rule settles-at-once: asks Airflow about one task after another, from
        the top, each when all above it has come as far as it can; update_state asks
        about all of them by the states from before."""
        from airflow.ti_deps.dependencies_states import SCHEDULEABLE_STATES

        above = {task.task_id: sorted(task.upstream_task_ids) for task in self.scheduler_dag.tasks}
        for task_id in graphlib.TopologicalSorter(above).static_order():
            found = self.instances()
            mine = [ti for ti in found if ti.task_id == task_id and ti.state in SCHEDULEABLE_STATES]
            if not mine:
                continue
            finished = [ti for ti in found if ti.state in ENDED]
            ready, _, _ = self.run._get_ready_tis(mine, finished, session=self.session)
            self.run.schedule_tis(ready, session=self.session)
            self.session.flush()

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
        waiting = self.waiting.setdefault(ti.run_id, set())
        waiting.discard((ti.task_id, ti.map_index))
        if ti.try_number > 1:
            self.forget(ti)
        if self.waits(ti, plan):
            ti.state = "up_for_reschedule"
            waiting.add((ti.task_id, ti.map_index))
            self.session.flush()
            return
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

    def waits(self, ti, plan):
        """Whether a sensor looks in vain once more."""
        key = (self.run.run_id, ti.task_id, ti.map_index, ti.try_number)
        if self.poked.get(key, 0) >= plan.get("waits", 0):
            return False
        self.poked[key] = self.poked.get(key, 0) + 1
        return True

    def begun(self, ti):
        """Whether an instance is back from its wait for a retry or another look."""
        return (ti.task_id, ti.map_index) in self.waiting.get(self.run.run_id, ())

    def forget(self, ti):
        """What a worker does first: it deletes what an earlier try has left."""
        from airflow.models.xcom import XComModel
        from sqlalchemy import delete

        same = {"dag_id": ti.dag_id, "task_id": ti.task_id, "run_id": ti.run_id, "map_index": ti.map_index}
        self.session.execute(delete(XComModel).filter_by(**same))

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
        if ti.map_index >= 0:
            self.rules.decided(ti, self.targets(ti, plan))
        context = {"ti": Runtime(self, ti, task), "task": task, "dag": self.dag, "dag_run": self.run, "params": {}}
        self.rules.decisions.pop((ti.run_id, ti.task_id), None)
        try:
            task.execute(context)
        except DownstreamTasksSkipped as e:
            tasks = [(t, -1) if isinstance(t, str) else tuple(t) for t in e.tasks]
            if ti.map_index < 0:
                self.rules.decisions[ti.run_id, ti.task_id] = {t[0] for t in tasks}
            tasks = self.rules.skippable(tasks)
            self.session.flush()
            payload = TISkippedDownstreamTasksStatePayload(tasks=tasks)
            ti_skip_downstream(ti.id, payload, self.session)

    def targets(self, ti, plan):
        """What a branch or short circuit decides to skip."""
        task = self.dag.task_dict[ti.task_id]
        if plan["kind"] == "short_circuit":
            return () if plan["condition"] else task.get_flat_relative_ids(upstream=False)
        follow = plan["follow"] or ()
        followed = {follow} if isinstance(follow, str) else set(follow)
        for task_id in list(followed & set(self.dag.task_dict)):
            followed |= set(self.dag.task_dict[task_id].get_flat_relative_ids(upstream=False))
        return set(task.downstream_task_ids) - followed

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
            self.waiting[ti.run_id].add((ti.task_id, ti.map_index))
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
        for task_id in self.rules.left_out.get(self.run.run_id, ()):
            states["%s[-1]" % task_id] = "removed"
        run = note or str(getattr(self.run.state, "value", self.run.state))
        return {"run": run, "states": states, "tries": tries, "fired": sorted(self.rules.fired)}


class Campaign(Drive):
    """Several runs of one DAG, one after another, and clears between them."""

    def begin(self):
        self.runs = {}  # by name
        self.forget_runs()

    def forget_runs(self):
        """Deletes what an earlier drive of the same DAG has left: some of Airflow's
        functions commit."""
        from airflow.models.dagrun import DagRun
        from airflow.models.taskinstance import TaskInstance
        from airflow.models.taskmap import TaskMap
        from airflow.models.xcom import XComModel
        from sqlalchemy import delete

        for table in (XComModel, TaskMap, TaskInstance, DagRun):
            self.session.execute(delete(table).where(table.dag_id == self.dag.dag_id))
        self.session.flush()

    def act(self):
        """What all runs look like after each action."""
        out = []
        for action in self.case["campaign"]:
            if action.get("run"):
                run = action["run"]
                self.runs[run["name"]] = self.make_run(run["name"], run["logical_date"], run["type"])
            else:
                self.clear(action["clear"])
            out.append(self.sweep())
        return out

    def clear(self, what):
        from airflow.utils.state import DagRunState

        tasks = cleared_together(self.scheduler_dag, what)
        for name in what["runs"]:
            self.waiting.pop(name, None)
            self.scheduler_dag.clear(
                task_ids=tasks, run_id=name, only_failed=what["only_failed"], dag_run_state=DagRunState.RUNNING, session=self.session
            )
        self.session.flush()

    def sweep(self):
        """Drives every run as far as it comes, the oldest first."""
        from airflow.utils.state import DagRunState

        states = {}
        for name, run in sorted(self.runs.items(), key=lambda item: item[1].logical_date):
            self.run, self.script = run, self.case["scripts"][name]
            self.session.refresh(run)
            run.dag = self.scheduler_dag
            states[name] = self.to_the_end() if run.state == DagRunState.RUNNING else self.result()
        return states


class Runtime:
    """What an operator asks of its task instance while it executes."""

    def __init__(self, drive, ti, task):
        self._drive, self._ti, self.task, self.map_index = drive, ti, task, ti.map_index
        self.dag_id, self.task_id, self.run_id = ti.dag_id, ti.task_id, ti.run_id

    def xcom_push(self, key, value, **_):
        self._drive.push(self._ti, key, value)
