/** The Python program that runs the code of a python step or task: it calls `main` and keeps what that returns. */
import { VERDICT_LIMITS } from "./verdict.ts";

/** Detects whether a step's code calls its `main` itself. Syntax does not show that: a `main` that is printed, wrapped
 *  or passed on need not be called. So a profiler watches calls from the first use of `main` in the code until `main`
 *  is entered, which slows down neither imports nor `main`. Forked processes and threads are watched too. Not
 *  detected: a `main` that starts later, as by `atexit` or a timer, and one in a spawned process. */
const PYTHON_MAIN = `def top_level(tree):
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


def calls_main(node):
    return any(isinstance(each, ast.Call) and is_main(each.func) for each in ast.walk(node))


def ends_with_status(nodes):
    """Whether the program ends with what main returns: sys.exit(main()), or status = main() and sys.exit(status)."""
    assigned = [each for each in nodes if isinstance(each, ast.Assign) and calls_main(each.value)]
    names = {target.id for each in assigned for target in each.targets if isinstance(target, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", None)) in EXITS:
            parts = [part for argument in node.args for part in ast.walk(argument)]
            if any(calls_main(part) or getattr(part, "id", None) in names for part in parts):
                return True
    return False


def uses_main(statement, with_guards):
    """Whether main could be entered from the statement on. Recursion is not a use."""
    if getattr(statement, "name", None) == "main":
        return bool(statement.decorator_list)
    if isinstance(statement, ast.If) and is_guard(statement.test) and not with_guards:
        return any(uses_main(each, with_guards) for each in statement.orelse)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return False
    return any(
        isinstance(node.ctx, ast.Load) if is_main(node) else isinstance(node, ast.Constant) and node.value == "main"
        for node in ast.walk(statement)
    )


class Watch:
    """Records whether main was entered, with a profiler: on from the first use of main in the code until main is entered."""

    def __init__(self, module):
        self.globals = module.__dict__
        self.entered = mmap.mmap(-1, 1)  # forked processes share it
        self.main, self.codes, self.defined, self.is_on = None, (), (), False

    def start(self):
        del self.globals[START]
        self.is_on = True
        threading.setprofile(self.see)
        sys.setprofile(self.see)

    def see(self, frame, event, argument):
        if not self.is_on:
            return sys.setprofile(None)
        if event not in ("call", "c_call"):
            return None
        main = self.globals.get("main")
        if main is not self.main:
            self.main, self.codes = main, codes_of(main)
        if event == "c_call":
            is_entered = argument is main
        else:
            is_entered = id(frame.f_code) in self.codes or frame.f_code in self.defined
        if is_entered:
            self.entered[0] = 1
            self.stop()

    def stop(self):
        self.is_on = False
        threading.setprofile(None)
        sys.setprofile(None)

    def was_entered(self):
        """A thread or process that was started with main may not have got to it yet: it gets a second."""
        end = time.monotonic() + 1
        children = getattr(sys.modules.get("multiprocessing"), "active_children", list)
        while self.is_on and not self.entered[0] and time.monotonic() < end and (threading.active_count() > 1 or children()):
            time.sleep(0.01)
        if self.is_on and not self.entered[0] and sys.getprofile() != self.see:
            raise Refused("the code set a profiler of its own, so it is unknown whether it called main: call main without one")
        self.stop()
        return self.entered[0] == 1


def codes_of(main):
    """The code of a function, and of what a wrapper, a partial, a class or an object calls."""
    found = set()
    for _ in range(20):
        found.add(id(getattr(main, "__code__", None)))
        if isinstance(main, functools.partial):
            main = main.func
        elif hasattr(main, "__wrapped__"):
            main = main.__wrapped__
        elif isinstance(main, type):
            main = main.__init__
        else:
            main = getattr(type(main), "__call__", None)
    return found - {id(None)}`;

// Runs the code of a python step: a small Python program is a second file beside the step's code. It calls `main` and writes the return value to result.json. Requires Python 3.8. `def main():` is called without
// arguments, `def main(input_data):` with the argument of this name or else with all arguments as one dict, `def main(a,
// b=2):` by name (a missing one without a default is an error, others are ignored), and `def main(**arguments):` with all
// of them. `main` may be async, or any callable. The code runs first, without the part under `if __name__ ==
// "__main__":`, and then `main` is called, unless the code itself has entered it. A script runs as `__main__`; the
// arguments are its global names, together they are `input_data`, and its global `result` is the result. This also holds for code
// without `main`, and for code whose guard ends with the status of `main`, as in `sys.exit(main())`. Code without `main` that
// returns a value outside of any function becomes the body of `main`. Each step has os, json, datetime and uuid
// without imports. A result.json that the code writes itself is kept.

/** Space for what surrounds the value in result.json. */
const MAX_VALUE_BYTES = VERDICT_LIMITS.bytes - 100;

/** File names in `inputs/` of the attempt's directory. */
export const CODE_FILE = "task.py";
export const RUNNER_FILE = "run_task.py";

export const PYTHON_RUNNER = `import ast, asyncio, datetime, functools, inspect, json, keyword, mmap, os, sys, threading, time, types, uuid

CODE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "${CODE_FILE}")
RESULT = os.environ["PERDURE_RESULT_FILE"]
EXITS = ("exit", "_exit", "quit", "SystemExit")
START = "__perdure_watch_main__"


class Refused(Exception):
    pass


${PYTHON_MAIN}


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


def returning(tree, given):
    """Code that returns a value without a function: it becomes the body of main, with the arguments as its parameters."""
    given = {"input_data": given, **{name: value for name, value in given.items() if name.isidentifier() and not keyword.iskeyword(name)}}
    wrapped = ast.parse("def main(" + ", ".join(given) + "): pass")
    wrapped.body[0].body = tree.body
    return wrapped, given


def run():
    given = json.loads(sys.stdin.buffer.read() or b"{}")
    with open(CODE, "rb") as file:
        source = file.read()
    tree = compile(source, CODE, "exec", ast.PyCF_ONLY_AST, True)
    nodes, guards = top_level(tree)
    has_main = any(map(binds_main, nodes))
    if not has_main and any(isinstance(each, ast.Return) for each in nodes):
        tree, given = returning(tree, given)
        nodes, guards, has_main = tree.body, [], True
    is_script = not has_main or ends_with_status([node for body in guards for node in ast.walk(body)])
    module = types.ModuleType("__main__" if is_script else "task")
    module.__file__ = CODE
    module.__dict__.update(os=os, json=json, datetime=datetime, uuid=uuid)
    if is_script or any(isinstance(node, ast.Call) and is_main(node.func) for node in nodes):
        module.__dict__.update((key, value) for key, value in given.items() if not key.startswith("__"))
        module.__dict__.setdefault("input_data", given)
    sys.modules[module.__name__] = module
    sys.argv = [CODE]
    before = module.__dict__.get("result")
    watch = Watch(module)
    for n, statement in enumerate(tree.body):
        if uses_main(statement, is_script):
            start = ast.Expr(ast.Call(ast.Name(START, ast.Load()), [], []))
            tree.body.insert(n, ast.fix_missing_locations(ast.copy_location(start, statement)))
            module.__dict__[START] = watch.start
            break
    code = compile(tree, CODE, "exec", dont_inherit=True)
    functions = [each for each in code.co_consts if getattr(each, "co_flags", 0) & inspect.CO_OPTIMIZED]
    watch.defined = [each for each in functions if each.co_name == "main"]
    ended = False
    try:
        exec(code, module.__dict__)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
        ended = True
    entered = watch.was_entered()
    main = module.__dict__.get("main")
    if ended and not entered and (callable(main) or (has_main and main is None)):
        raise Refused("the code ended before main was called")
    if callable(main) and not entered:
        value = call(main, given)
        keep(asyncio.run(awaited(value)) if inspect.isawaitable(value) else value, "main returned")
    elif "result" in module.__dict__ and module.__dict__["result"] is not before:
        keep(module.__dict__["result"], "the variable result is")
    elif has_main and main is None and not entered:
        raise Refused("main is not defined after the code has run, so it was not called")


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
