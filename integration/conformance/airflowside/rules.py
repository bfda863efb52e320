"""The differences that Airlock means, each done to Airflow on request.

A rule that changes something is noted in `fired`. What each is and why stands in
docs/airflow-compatibility.md.
"""


class Rules:
    def __init__(self, drive, names):
        self.drive, self.on, self.fired = drive, set(names), set()
        self.stopped_by = {}  # by run, tasks whose failure stops it
        self.mapped_skips = {}  # by run and branch, what each of its instances skips
        self.decisions = {}  # by run and branch that is not mapped, what it skips
        self.decided_against = set()
        self.left_out = {}  # by run, tasks whose own dates leave them out of it
        patch_expansion()
        patch_skipping()
        patch_sources()
        patch_states()
        Expansion.rules = self

    def fire(self, name):
        if name not in self.on:
            return False
        self.fired.add(name)
        return True

    def leave_out(self, run):
        """A task whose own dates leave it out of a run is `removed` there, and
        counts in no number."""
        tasks = self.drive.scheduler_dag.task_dict
        there = {ti.task_id for ti in run.get_task_instances(session=self.drive.session)}
        gone = sorted(set(tasks) - there)
        if not gone or not self.fire("dates-leave-out"):
            return
        self.left_out[run.run_id] = gone
        for task in tasks.values():
            task.upstream_task_ids.difference_update(gone)

    def mistake(self):
        """How an attempt ends whose step is wrong in itself."""
        return "fatal" if self.fire("mistakes-end-at-once") else "fail"

    def skippable(self, tasks):
        """The skip list of a branch or short circuit as Airlock has it."""
        every = [
            (ti.task_id, ti.map_index)
            for ti in self.drive.instances()
            if ti.map_index >= 0 and (ti.task_id, -1) in tasks
        ]
        teardowns = [t for t in tasks if self.drive.scheduler_dag.task_dict[t[0]].is_teardown]
        if teardowns and self.fire("teardowns-run"):
            tasks = [t for t in tasks if t not in teardowns]
        if every and self.fire("skips-reach-mapped"):
            tasks = tasks + every
        for rule, states in (("ended-stays-ended", ("upstream_failed", "removed")), ("retry-goes-on", WAITING)):
            kept = [
                (ti.task_id, ti.map_index)
                for ti in self.drive.instances()
                if ti.state in states and (ti.task_id, ti.map_index) in tasks
            ]
            if kept and self.fire(rule):
                tasks = [t for t in tasks if t not in kept]
        return tasks

    def stops_gently(self, ti):
        if "fail-fast" not in self.on:
            return False
        self.fire("fail-fast")
        if not self.drive.scheduler_dag.task_dict[ti.task_id].is_teardown:
            self.stopped_by.setdefault(ti.run_id, set()).add(ti.task_id)
        return True

    def before_pass(self):
        self.skip_in_instances()
        self.skip_again()
        self.stop_the_rest()

    def stop_the_rest(self):
        """After a failure under fail_fast, what depends on the failed task is
        upstream_failed, all the way down (every task has all_success there), what
        else has not begun is skipped, and running instances end as they do."""
        found = self.drive.instances()
        now = {ti.task_id for ti in found if ti.state == "failed"}  # not cleared since
        if not self.stopped_by.get(self.drive.run.run_id, set()) & now:
            return
        tasks = self.drive.scheduler_dag.task_dict
        lost = {(ti.task_id, ti.map_index) for ti in found if ti.state in ("failed", "upstream_failed")}
        open_ones = [ti for ti in found if ti.state in (None, "scheduled", "queued", "up_for_retry") and not tasks[ti.task_id].is_teardown]
        for _ in tasks:  # a level each
            for ti in open_ones:
                if ti.state is None and any(depends(tasks, ti, one) for one in lost):
                    ti.state = "upstream_failed"
                    lost.add((ti.task_id, ti.map_index))
        for ti in open_ones:
            if ti.state != "upstream_failed":
                ti.state = "skipped"
        self.drive.session.flush()

    def decided(self, ti, targets):
        """Notes what an instance of a mapped branch or short circuit skips, or of
        one in a mapped group; None takes back what an earlier try said."""
        skips = self.mapped_skips.setdefault((ti.run_id, ti.task_id), {})
        skips[ti.map_index] = set(targets)

    def skip_in_instances(self):
        """Skips tasks of the same instance of the group, and tasks elsewhere when
        all instances say so; Airflow looks for the decision in the wrong place."""
        if "mapped-branches" not in self.on:
            return
        tasks, found = self.drive.scheduler_dag.task_dict, self.drive.instances()
        for (run_id, branch), skips in self.mapped_skips.items():
            if run_id != self.drive.run.run_id:
                continue
            mine = [ti for ti in found if ti.task_id == branch and ti.state != "removed"]
            done = {ti.map_index for ti in mine if ti.state == "success"}
            group = closest(tasks[branch])
            for ti in found:
                if ti.state not in (None, "scheduled") or self.drive.begun(ti) or tasks[ti.task_id].is_teardown:
                    continue
                votes = [index for index in done if ti.task_id in skips.get(index, ())]
                inside = tasks[ti.task_id].is_mapped or (group and closest(tasks[ti.task_id]) == group)
                if (ti.map_index in votes) if inside else len(votes) >= len(mine) > 0:
                    self.fire("mapped-branches")
                    ti.state = "skipped"
        self.drive.session.flush()

    def skip_again(self):
        """Finds what was cleared below a branch or short circuit that was not, and
        that had decided against it. The pass skips it: also further below, and
        whatever the trigger rule says."""
        self.decided_against = set()
        if "decisions-hold" not in self.on:
            return
        tasks, found = self.drive.scheduler_dag.task_dict, self.drive.instances()
        for ti in found:
            if ti.state is not None or self.drive.begun(ti) or tasks[ti.task_id].is_teardown:
                continue
            if any(b.state == "success" and b.map_index < 0 and ti.task_id in self.decisions.get((b.run_id, b.task_id), ()) for b in found):
                self.decided_against.add((ti.run_id, ti.task_id, ti.map_index))

    def against(self, ti):
        """Whether this pass skips an instance for what was decided before a clear."""
        return (ti.run_id, ti.task_id, ti.map_index) in self.decided_against

    def forget_lapsed(self, ti, dep_context, session):
        """Deletes what a branch or short circuit directly above decided before it
        was cleared, when it has now ended without running to success."""
        from airflow.models.xcom import XComModel
        from sqlalchemy import delete

        if "old-decisions-lapse" not in self.on:
            return
        finished = dep_context.ensure_finished_tis(ti.get_dagrun(session=session), session=session)
        for parent in ti.task.get_direct_relatives(upstream=True):
            index = ti.map_index if parent.is_mapped else -1
            lapsed = any(one.task_id == parent.task_id and one.map_index == index and one.state != "success" for one in finished)
            if not parent.inherits_from_skipmixin or not lapsed:
                continue
            same = {"dag_id": ti.dag_id, "task_id": parent.task_id, "run_id": ti.run_id, "map_index": index}
            if session.execute(delete(XComModel).filter_by(key="skipmixin_key", **same)).rowcount:
                self.fire("old-decisions-lapse")

    def after_pass(self):
        """Skips a mapped group without values as a whole."""
        if "empty-group-at-once" not in self.on:
            return
        from airflow.exceptions import NotMapped
        from airflow.models.expandinput import NotFullyPopulated
        from airflow.serialization.definitions.mappedoperator import get_mapped_ti_count

        tasks = self.drive.scheduler_dag.task_dict
        for ti in self.drive.instances():
            task = tasks[ti.task_id]
            if ti.state is not None or ti.map_index >= 0 or not closest(task):
                continue
            try:
                count = get_mapped_ti_count(task, ti.run_id, session=self.drive.session)
            except (NotMapped, NotFullyPopulated):
                continue
            if count == 0 and self.fire("empty-group-at-once"):
                ti.state = "skipped"
        self.drive.session.flush()

    def waits_for_source(self, task, run_id, session):
        """Keeps a mapped task unexpanded until all above it has ended, and a mapped
        group until its sources have."""
        group = task.get_closest_mapped_task_group()
        if "mapped-waits" not in self.on or not (task.is_mapped or group):
            return False
        above = {op.task_id for op in group.iter_mapped_dependencies()} if group else set(task.upstream_task_ids)
        waits = any(ti.task_id in above and ti.state not in ENDED for ti in self.drive.instances())
        return waits and self.fire("mapped-waits")


def depends(tasks, ti, above):
    """Whether an instance is directly below another: in the same mapped group only
    those with its own map index are above it."""
    task_id, map_index = above
    if task_id not in tasks[ti.task_id].upstream_task_ids:
        return False
    group = closest(tasks[ti.task_id])
    return not group or group != closest(tasks[task_id]) or map_index == ti.map_index


def closest(task):
    """The id of the mapped group around a task, None without one."""
    group = task.get_closest_mapped_task_group()
    return group and group.group_id


WAITING = ("up_for_retry", "up_for_reschedule")
ENDED = ("success", "failed", "skipped", "upstream_failed", "removed")


class Expansion:
    """What is patched into Airflow, with the rules of the present drive."""

    rules = None
    original = None


def patch_expansion():
    from airflow.models.taskmap import TaskMap

    if Expansion.original is not None:
        return
    Expansion.original = TaskMap.expand_mapped_task

    def expand(task, run_id, *, session):
        if Expansion.rules.waits_for_source(task, run_id, session):
            return (), 0
        return Expansion.original(task, run_id, session=session)

    TaskMap.expand_mapped_task = staticmethod(expand)


def patch_skipping():
    """Lets an instance that waits for a retry go on though a branch or short
    circuit above it has decided against it meanwhile."""
    from airflow.ti_deps.deps.not_previously_skipped_dep import NotPreviouslySkippedDep

    if getattr(NotPreviouslySkippedDep, "airlock_rule", False):
        return
    NotPreviouslySkippedDep.airlock_rule = True
    original = NotPreviouslySkippedDep._get_dep_statuses

    def statuses(self, ti, dep_context, *, session):
        Expansion.rules.forget_lapsed(ti, dep_context, session)
        if Expansion.rules.against(ti):
            if ti.state != "skipped" and not list(original(self, ti, dep_context, session=session)):
                Expansion.rules.fire("decisions-hold")
            ti.set_state("skipped", session=session)
            return iter((self._failing_status(reason="a decision of before the clear holds"),))
        if ti.task.is_teardown and "teardowns-run" in Expansion.rules.on:
            return iter(())
        waits = ti.state in WAITING or ti.state == "scheduled" and Expansion.rules.drive.begun(ti)
        if not waits or "retry-goes-on" not in Expansion.rules.on:
            return original(self, ti, dep_context, session=session)
        if any(not s.passed for s in original(self, Untouched(ti), dep_context, session=session)):
            Expansion.rules.fire("retry-goes-on")
        return iter(())

    NotPreviouslySkippedDep._get_dep_statuses = statuses


def patch_sources():
    """Lets a mapped task see its sources as its trigger rule sees them, as they
    were when the pass began: Airflow reads the sources from the database, so that
    one which is skipped earlier in the same pass skips the task before the rule
    has seen it."""
    from airflow.ti_deps.deps.mapped_task_upstream_dep import MappedTaskUpstreamDep

    if getattr(MappedTaskUpstreamDep, "airlock_rule", False):
        return
    MappedTaskUpstreamDep.airlock_rule = True
    original = MappedTaskUpstreamDep._get_dep_statuses

    def statuses(self, ti, dep_context, *, session):
        rules = Expansion.rules
        if "sources-in-step" in rules.on and ti.task.is_mapped and dep_context.finished_tis is not None:
            seen = {(one.task_id, one.map_index) for one in dep_context.finished_tis}
            sources = {op.task_id for op in ti.task.iter_mapped_dependencies()}
            for one in ti.get_dagrun(session=session).get_task_instances(session=session):
                ahead = one.task_id in sources and one.map_index < 0 and one.state == "skipped"
                if ahead and (one.task_id, -1) not in seen and rules.fire("sources-in-step"):
                    return iter((self._failing_status(reason="a source has ended in this pass"),))
        return original(self, ti, dep_context, session=session)

    MappedTaskUpstreamDep._get_dep_statuses = statuses


class Untouched:
    """A task instance whose state nobody can set."""

    def __init__(self, ti):
        self._ti = ti

    def __getattr__(self, name):
        return getattr(self._ti, name)

    def set_state(self, *_, **__):
        return False


def patch_states():
    """Lets upstream_failed win where the mapped task's source failed and its
    trigger rule skips it: Airflow asks the two in no certain order."""
    from airflow.models.taskinstance import TaskInstance

    if getattr(TaskInstance, "airlock_rule", False):
        return
    TaskInstance.airlock_rule = True
    original = TaskInstance.set_state

    def set_state(self, state, *args, **kwargs):
        if state == "upstream_failed" and Expansion.rules.against(self) and Expansion.rules.fire("decisions-hold"):
            return False
        if state == "skipped" and self.state == "upstream_failed" and Expansion.rules.fire("source-failure-wins"):
            return False
        return original(self, state, *args, **kwargs)

    TaskInstance.set_state = set_state
