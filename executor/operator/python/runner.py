"""Calls one Python callable for Airlock and writes down what came of it.

Started as: python3 runner.py request.json result.json
Works with Python 3.7 and later and with the standard library alone.
"""

import datetime
import importlib
import importlib.util
import inspect
import json
import os
import socket
import sys
import traceback
import types


def main(request_path, result_path):
    with open(request_path, encoding="utf-8") as f:
        request = json.load(f)
    pushed = {}
    try:
        result = attempt(request, pushed)
    except SystemExit:
        raise  # the exit code speaks for itself
    except BaseException as e:  # also KeyboardInterrupt: whatever ends the callable is told
        result = failure("exception", e)
    result["xcoms"] = pushed
    temporary = result_path + ".tmp"
    with open(temporary, "w", encoding="utf-8") as f:
        f.write(dump(result))
    os.replace(temporary, result_path)
    sys.stdout.flush()
    sys.exit(0 if result["kind"] == "value" else 1)


def attempt(request, pushed):
    for folder in reversed(request["path"]):
        sys.path.insert(0, folder)
    offer_airflow_exceptions()
    try:
        function = load(request)
    except (ImportError, SyntaxError, AttributeError, OSError) as e:
        return failure("import", e)
    if not callable(function):
        return failure("import", TypeError("%s is not callable" % request["name"]))
    context = make_context(request, pushed)
    args = list(request["op_args"])
    kwargs = choose_arguments(function, args, request["op_kwargs"], context)
    value = function(*args, **kwargs)
    if inspect.iscoroutine(value):
        import asyncio

        value = asyncio.run(value)
    return describe(request, value)


def describe(request, value):
    mode = request["mode"]
    if mode == "truth":
        truth = bool(value)
        try:
            dump(value)
        except (TypeError, ValueError, RecursionError):
            value = truth
        return {"kind": "value", "value": value, "truth": truth}
    if not request["keep_value"]:
        return {"kind": "value", "value": None}
    if request["multiple_outputs"] and not (
        isinstance(value, dict) and all(isinstance(k, str) for k in value)
    ):
        return {
            "kind": "not_json",
            "message": "multiple_outputs needs a dict with text keys; the callable returned %s" % type(value).__name__,
        }
    try:
        dump(value)
    except (TypeError, ValueError, RecursionError) as e:
        return {"kind": "not_json", "message": "the callable returned %s: %s" % (type(value).__name__, e)}
    return {"kind": "value", "value": value}


def dump(value):
    return json.dumps(value, allow_nan=False)


def load(request):
    """Finds the callable: in a file by its name, or by a dotted path."""
    if request["file"]:
        spec = importlib.util.spec_from_file_location("airlock_callable", request["file"])
        if spec is None or spec.loader is None:
            raise ImportError("%s is not a Python file" % request["file"])
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        sys.path.insert(0, os.path.dirname(request["file"]))
        spec.loader.exec_module(module)
        return getattr(module, request["name"])
    parts = request["name"].split(".")
    for end in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[:end])
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError as e:
            # Only when it is this module that is missing, not one it imports.
            if e.name and (name == e.name or name.startswith(e.name + ".")) and end > 1:
                continue
            raise
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise ImportError("%r is not a dotted path to a callable" % request["name"])


def choose_arguments(function, args, op_kwargs, context):
    """Gives a callable what it asks for, as Airflow does: all of the context to
    one with **kwargs, else what its parameters name."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return dict(op_kwargs)
    everything = dict(context)
    everything.update(op_kwargs)
    for parameter in list(parameters.values())[: len(args)]:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            break
        if parameter.name in op_kwargs:
            raise TypeError("%r is given by op_args and by op_kwargs" % parameter.name)
        everything.pop(parameter.name, None)
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return everything
    unwanted = sorted(set(op_kwargs) - set(parameters))
    if unwanted:
        print("airlock: the callable has no parameter for op_kwargs %s" % ", ".join(unwanted), file=sys.stderr)
    return {name: everything[name] for name in parameters if name in everything}


def make_context(request, pushed):
    context = dict(request["context"])
    for name in ("logical_date", "data_interval_start", "data_interval_end"):
        if context.get(name):
            context[name] = datetime.datetime.fromisoformat(context[name])
    ti = TaskInstance(context, request["socket"], pushed)
    context["ti"] = context["task_instance"] = ti
    context["dag"] = types.SimpleNamespace(dag_id=context["dag_id"], params=context["params"])
    context["task"] = types.SimpleNamespace(task_id=context["task_id"], owner=request["owner"])
    context["dag_run"] = types.SimpleNamespace(
        dag_id=context["dag_id"],
        run_id=context["run_id"],
        run_type=request["run_type"],
        conf=request["conf"],
        logical_date=context.get("logical_date"),
        data_interval_start=context.get("data_interval_start"),
        data_interval_end=context.get("data_interval_end"),
    )
    if request["templates_dict"] is not None:
        context["templates_dict"] = request["templates_dict"]
    return context


class TaskInstance:
    """The part of Airflow's task instance that makes sense here."""

    def __init__(self, context, address, pushed):
        self.dag_id = context["dag_id"]
        self.task_id = context["task_id"]
        self.run_id = context["run_id"]
        self.map_index = context["map_index"]
        self.try_number = context["try_number"]
        self._address = address
        self._pushed = pushed

    def xcom_push(self, key, value, **_):
        """Keeps a value under a key; it must be JSON."""
        dump(value)
        self._pushed[str(key)] = value

    def xcom_pull(self, task_ids=None, dag_id=None, key="return_value", map_indexes=None, default=None, **unknown):
        """Reads values of this run: one for a text, a list for a list of ids."""
        if unknown:
            raise TypeError("xcom_pull has no %s here" % ", ".join(sorted(unknown)))
        if dag_id not in (None, self.dag_id):
            raise ValueError("xcom_pull reads values of this DAG only")
        if task_ids is None:
            raise ValueError("xcom_pull needs task_ids here")
        if map_indexes is not None and not isinstance(map_indexes, int):
            return [self.xcom_pull(task_ids, key=key, map_indexes=i, default=default) for i in map_indexes]
        if isinstance(task_ids, str):
            value = self._ask({"task_id": task_ids, "key": key, "map_index": map_indexes})
            return default if value is None else value
        return [self.xcom_pull(t, key=key, map_indexes=map_indexes, default=default) for t in task_ids]

    def _ask(self, question):
        if not self._address:
            raise RuntimeError("xcom_pull is not available here")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.connect(self._address)
            s.sendall(json.dumps(question).encode() + b"\n")
            answer = b"".join(iter(lambda: s.recv(65536), b""))
        reply = json.loads(answer.decode())
        if reply.get("error"):
            raise RuntimeError(reply["error"])
        return reply.get("value")


def failure(kind, e):
    names = [c.__name__ for c in type(e).__mro__]
    result = {
        "kind": kind,
        "type": type(e).__name__,
        "types": names,
        "message": str(e),
        "trace": "".join(traceback.format_exception(type(e), e, e.__traceback__)),
    }
    for name in ("error_class", "error_code", "retry_after", "hint"):
        said = getattr(e, name, None)
        if isinstance(said, (str, int, float)) and not isinstance(said, bool):
            result[name] = said
    try:
        dump(result)
    except ValueError:  # a retry_after that is not a number
        result.pop("retry_after", None)
    if "AirflowSkipException" not in names:
        sys.stderr.write(result["trace"])
    return result


def offer_airflow_exceptions():
    """Where Airflow is not installed, lets a file import its exceptions."""
    try:
        if importlib.util.find_spec("airflow") is not None:
            return
    except (ImportError, ValueError):
        return

    class AirflowException(Exception):
        pass

    class AirflowFailException(AirflowException):
        pass

    class AirflowSkipException(AirflowException):
        pass

    class AirflowSensorTimeout(AirflowException):
        pass

    for name in ("airflow", "airflow.exceptions", "airflow.sdk", "airflow.sdk.exceptions"):
        module = types.ModuleType(name)
        module.__path__ = []
        if name.endswith("exceptions"):
            for e in (AirflowException, AirflowFailException, AirflowSkipException, AirflowSensorTimeout):
                setattr(module, e.__name__, e)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
