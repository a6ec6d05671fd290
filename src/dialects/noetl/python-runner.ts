/** How the code of a python step is run: a small program in Python that goes with the step's code as a second file. It calls
 *  `main` as NoETL does and leaves what it returns in result.json. It needs Python 3.8.
 *
 *    def main():               called without arguments, whatever the step passes
 *    def main(input_data):     the argument of this name, else all arguments as one dict
 *    def main(a, b=2):         by name; one that is missing and has no default is an error, others are ignored
 *    def main(**arguments):    all of them
 *
 *  `main` may be async, and anything that can be called. Code that calls it outside of `if __name__ == "__main__":`, or ends
 *  there with its status as in `sys.exit(main())`, is a script, and so is code without one: it is run as `__main__`, the
 *  arguments are its global names, and its global `result` is the result. Each step knows os, json, datetime and uuid
 *  without importing them. A result.json that the code writes itself stays as it is. */
import { VERDICT_LIMITS } from "../../core/verdict.ts";

/** Room for what stands around the value in result.json. */
const MAX_VALUE_BYTES = VERDICT_LIMITS.bytes - 100;

/** Names of files in `inputs/` of the attempt's directory. */
export const CODE_FILE = "task.py";
export const RUNNER_FILE = "run_task.py";

export const PYTHON_RUNNER = `import ast, asyncio, datetime, inspect, json, os, sys, types, uuid

CODE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "${CODE_FILE}")
RESULT = os.environ["PERDURE_RESULT_FILE"]


class Refused(Exception):
    pass


def top_level(tree):
    """All nodes that run with the module, those of guards left out, and the bodies of guards."""
    nodes, guards, queue = [], [], [tree]
    while queue:
        for node in ast.iter_child_nodes(queue.pop()):
            nodes.append(node)
            if isinstance(node, ast.If) and is_guard(node.test):
                guards += node.body
                queue += [ast.Module(node.orelse, [])]
            elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                queue.append(node)
    return nodes, guards


def is_guard(test):
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)):
        return False
    sides = [test.left, *test.comparators]
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides) and any(
        isinstance(side, ast.Constant) and side.value == "__main__" for side in sides
    )


def is_main(node):
    return isinstance(node, ast.Name) and node.id == "main"


def binds_main(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name == "main"
    if isinstance(node, ast.ImportFrom):
        return any((alias.asname or alias.name) == "main" for alias in node.names)
    if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):
        return any(is_main(target) for target in node.targets)
    return False


def uses_main(node):
    if not isinstance(node, ast.Call):
        return False
    return any(is_main(part) for part in [node.func, *node.args, *[keyword.value for keyword in node.keywords]])


def ends_program(node):
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Name) and node.id == "SystemExit"
    return getattr(node.func, "id", getattr(node.func, "attr", None)) in ("exit", "_exit", "quit")


def call(main, given):
    try:
        parameters = list(inspect.signature(main).parameters.values())
    except (TypeError, ValueError):
        return main(**given)
    first = parameters[0] if len(parameters) == 1 and parameters[0].name == "input_data" else None
    if first is not None and "input_data" not in given and first.kind < inspect.Parameter.VAR_POSITIONAL:
        if given or first.default is inspect.Parameter.empty:
            given = {"input_data": given}
    missing, positional, named, rest, takes_all = [], [], {}, dict(given), False
    for each in parameters:
        if each.kind == inspect.Parameter.VAR_KEYWORD:
            takes_all = True
        elif each.kind == inspect.Parameter.VAR_POSITIONAL:
            continue
        elif each.name not in given and each.default is inspect.Parameter.empty:
            missing.append(each.name)
        elif each.kind == inspect.Parameter.POSITIONAL_ONLY:
            positional.append(rest.pop(each.name, each.default))
        elif each.name in given:
            named[each.name] = rest.pop(each.name)
    if missing:
        names = ", ".join(missing)
        raise Refused("TypeError: main requires " + names + ", which the step does not pass: add it under args, data or input")
    if takes_all:
        named.update(rest)
    return main(*positional, **named)


async def awaited(value):
    return await value


def keep(value, what):
    """Writes the value as the result, in one step. A verdict counts whatever happens after it."""
    if os.path.lexists(RESULT):
        if value is not None:
            print("note: the code has written a result.json itself, so what " + what + " is not kept", file=sys.stderr)
        return

    def refuse(part):
        kind = type(part).__name__
        where = "a " + kind if part is value else "a " + type(value).__name__ + " with a " + kind + " in it"
        problem = "TypeError: " + what + " " + where + ", which JSON does not have"
        raise Refused(problem + "; it takes dicts, lists, texts, numbers, True, False and None")

    def exact(digits):
        if abs(int(digits)) > 9007199254740991:
            raise Refused("ValueError: " + what + " the number " + digits + ", too large to be kept exactly; make it a text")

    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, default=refuse)
        json.loads(text, parse_int=exact)
    except (TypeError, ValueError, RecursionError) as error:
        problem = type(error).__name__ + ": " + what + " a " + type(value).__name__
        raise Refused(problem + " that cannot be written as JSON: " + str(error)) from None
    data = text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes its escape
    if len(data) > ${MAX_VALUE_BYTES}:
        raise Refused(
            "ValueError: " + what + " " + str(len(data)) + " bytes as JSON, and at most ${MAX_VALUE_BYTES} are kept; "
            "write them to a file in artifacts/"
        )
    with open(RESULT + ".new", "wb") as file:
        file.write(b'{"status":"completed","output":' + data + b"}")
    os.replace(RESULT + ".new", RESULT)


def run():
    given = json.loads(sys.stdin.buffer.read() or b"{}")
    with open(CODE, "rb") as file:
        source = file.read()
    tree = compile(source, CODE, "exec", ast.PyCF_ONLY_AST, True)
    code = compile(tree, CODE, "exec", dont_inherit=True)
    nodes, guards = top_level(tree)
    guarded = [node for body in guards for node in ast.walk(body)]
    is_script = any(map(uses_main, nodes)) or (any(map(uses_main, guarded)) and any(map(ends_program, guarded)))
    has_main = any(map(binds_main, nodes))

    name = "task" if has_main and not is_script else "__main__"
    module = types.ModuleType(name)
    module.__file__ = CODE
    module.__dict__.update(os=os, json=json, datetime=datetime, uuid=uuid)
    if name == "__main__":
        module.__dict__.update((key, value) for key, value in given.items() if not key.startswith("__"))
    sys.modules[name] = module
    sys.argv = [CODE]
    before = module.__dict__.get("result")
    try:
        exec(code, module.__dict__)
    except SystemExit as end:
        if name != "__main__" or end.code not in (None, 0):
            raise
        is_script = True
    main = module.__dict__.get("main")
    if callable(main) and not is_script:
        value = call(main, given)
        keep(asyncio.run(awaited(value)) if inspect.isawaitable(value) else value, "main returned")
    elif "result" in module.__dict__ and module.__dict__["result"] is not before:
        keep(module.__dict__["result"], "the variable result is")


def own_frames(trace):
    """The trace from the step's code on, or from what it calls."""
    frames = []
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace))
        trace = trace.tb_next
    own = [each for file, each in frames if file == CODE] or [each for file, each in frames if file != __file__]
    return own[0] if own else None


if __name__ == "__main__":
    try:
        run()
    except Refused as error:
        sys.stdout.flush()
        sys.exit(str(error))
    except Exception as error:
        error.__traceback__ = own_frames(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)
`;
