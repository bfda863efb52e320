"""Builds Airflow's DAGs from YAML with dag-factory, and tells their structure."""

import contextlib
import io


def from_yaml(path, extras, rules=()):
    """All DAGs of a file. `extras` says what dag-factory cannot express and is
    done to its objects: setups, teardowns, fail_fast, expand_kwargs and mapped
    groups."""
    from dagfactory._yaml import load_yaml_file
    from dagfactory.dagfactory import _DagFactory

    make_mapped_groups()
    if "groups-as-written" in rules:
        order_dependencies()
    config = load_yaml_file(path)
    for dag_id, body in config.items():
        if isinstance(body, dict):
            extra = extras.get(dag_id, {})
            if extra:
                strip(body)
    with contextlib.redirect_stdout(io.StringIO()):
        dags = _DagFactory(config_dict=config).build_dags()
    for dag_id, dag in dags.items():
        finish(dag, extras.get(dag_id, {}))
        if "wait-implies-past" in rules:
            for task in dag.tasks:
                if task.is_mapped and task.partial_kwargs.get("wait_for_downstream"):
                    task.partial_kwargs["depends_on_past"] = True
    return dags


def order_dependencies():
    """The rule groups-as-written: who depends on a group depends on the ends that
    it has when all inside it is wired, not on those that it has by then."""
    from dagfactory.dagbuilder import DagBuilder

    if getattr(DagBuilder, "airlock_rule", False):
        return
    DagBuilder.airlock_rule = True
    original = DagBuilder.set_dependencies

    def only(configs, wanted):
        return {
            name: {**conf, "dependencies": [d for d in conf.get("dependencies") or [] if wanted(d)]}
            for name, conf in configs.items()
        }

    def set_dependencies(tasks, operators, groups, group_objects):
        inner = {name: conf for name, conf in groups.items() if conf.get("parent_group")}
        for some_tasks, some_groups in (
            (only(tasks, lambda d: d in tasks), only(groups, lambda d: False)),
            (only(tasks, lambda d: False), only(inner, lambda d: True)),
            (only(tasks, lambda d: False), only({k: v for k, v in groups.items() if k not in inner}, lambda d: True)),
            (only(tasks, lambda d: d in groups), only(groups, lambda d: False)),
        ):
            original(some_tasks, operators, some_groups, group_objects)

    DagBuilder.set_dependencies = staticmethod(set_dependencies)


OWN_KEYS = ("is_setup", "is_teardown", "on_failure_fail_dagrun")


def strip(body):
    body.pop("fail_fast", None)
    for task in (body.get("tasks") or {}).values():
        for key in OWN_KEYS:
            task.pop(key, None)
        kwargs = task.pop("expand_kwargs", None)
        if kwargs is not None:  # finish makes it expand_kwargs again
            task["expand"] = {"op_args": kwargs if isinstance(kwargs, str) else [k["op_args"] for k in kwargs]}


def make_mapped_groups():
    """Lets dag-factory make a mapped group of one that has `expand`."""
    from airflow.sdk.definitions._internal.expandinput import DictOfListsExpandInput
    from airflow.sdk.definitions.taskgroup import MappedTaskGroup, TaskGroup
    from dagfactory import dagbuilder

    def make(**conf):
        expand = conf.pop("expand", None)
        if expand is None:
            return TaskGroup(**conf)
        values = {k: [] if isinstance(v, str) else v for k, v in expand.items()}
        return MappedTaskGroup(expand_input=DictOfListsExpandInput(values), **conf)

    dagbuilder.TaskGroup = make


def finish(dag, extra):
    if extra.get("fail_fast"):
        dag.fail_fast = True
    expand_by(dag, extra)
    for task_id in extra.get("setups") or ():
        dag.task_dict[task_id].as_setup()
    for task_id, fails_run in (extra.get("teardowns") or {}).items():
        dag.task_dict[task_id].as_teardown(on_failure_fail_dagrun=fails_run)


def expand_by(dag, extra):
    from airflow.sdk.definitions._internal.expandinput import DictOfListsExpandInput, ListOfDictsExpandInput

    for task_id in extra.get("kwargs") or ():
        task = dag.task_dict[task_id]
        value = task.expand_input.value["op_args"]
        if isinstance(value, list):
            value = [{"op_args": v} for v in value]
        task.expand_input = ListOfDictsExpandInput(value)
    for group_id, source in (extra.get("group_sources") or {}).items():
        group = dag.task_group_dict[group_id]
        source = dag.task_dict[source]
        group._expand_input = DictOfListsExpandInput({"x": source.output})
        group.set_upstream(source)


def scheduler_dag(dag):
    """The DAG as the scheduler reads it back from the database."""
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))


def structure(dag):
    """What both sides must read alike, of the DAG as the scheduler has it."""
    out = {
        "schedule": schedule(dag.timetable),
        "start_date": instant(dag._time_restriction.earliest),
        "end_date": instant(dag._time_restriction.latest),
        "catchup": bool(dag.catchup),
        "max_active_runs": dag.max_active_runs,
        "max_active_tasks": dag.max_active_tasks,
        "dagrun_timeout": seconds(dag.dagrun_timeout),
        "tasks": {},
    }
    import types

    for task in dag.tasks:
        out["tasks"][task.task_id] = {
            "upstream": sorted(task.upstream_task_ids),
            "trigger_rule": str(getattr(task.trigger_rule, "value", task.trigger_rule)),
            "retries": task.retries,
            "retry_delay": seconds(task.retry_delay),
            "max_retry_delay": seconds(task.max_retry_delay),
            "exponential": float(task.retry_exponential_backoff or 0),
            "execution_timeout": seconds(task.execution_timeout),
            "mapped": bool(task.is_mapped),
            "setup": bool(task.is_setup),
            "teardown": bool(task.is_teardown),
            "pool": task.pool,
            "pool_slots": task.pool_slots,
            "priority_weight": task.priority_weight,
            "total_weight": task.weight_rule.get_weight(types.SimpleNamespace(task=task)),
            "limit_per_dag": task.max_active_tis_per_dag,
            "limit_per_run": task.max_active_tis_per_dagrun,
            "queue": task.queue,
            "owner": task.owner,
            "depends_on_past": bool(task.depends_on_past),
            "wait_for_downstream": bool(task.wait_for_downstream),
            "start_date": instant(task.start_date or dag._time_restriction.earliest),
            "end_date": instant(task.end_date or dag._time_restriction.latest),
        }
    return out


def cleared_together(dag, question):
    """What is cleared when somebody clears some tasks."""
    subset = dag.partial_subset(
        task_ids=question["tasks"], include_upstream=question["upstream"], include_downstream=question["downstream"]
    )
    return sorted(subset.task_dict)


def schedule(timetable):
    """The timetable's kind and its texts."""
    name = type(timetable).__name__
    return {"kind": name, "text": str(timetable.summary)}


def instant(value):
    import datetime

    if value is None:
        return None
    return value.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(delta):
    if delta is None:
        return 0
    return delta.total_seconds() if hasattr(delta, "total_seconds") else float(delta)
