/** How the code of a python step is run: a small program in Python that goes with the step's code as a second file. It calls
 *  `main` as NoETL does and leaves what it returns in result.json. It needs Python 3.8.
 *
 *    def main():               called without arguments, whatever the step passes
 *    def main(input_data):     the argument of this name, else all arguments as one dict
 *    def main(a, b=2):         by name; one that is missing and has no default is an error, others are ignored
 *    def main(**arguments):    all of them
 *
 *  `main` may be async, and anything that can be called. The code is run first, without what stands under
 *  `if __name__ == "__main__":`, and then `main` is called, unless the code itself has entered it. A script is run as
 *  `__main__`, the arguments are its global names, and its global `result` is the result: code without `main`, and code whose
 *  guard ends with the status of `main`, as in `sys.exit(main())`. Each step knows os, json, datetime and uuid without
 *  importing them. A result.json that the code writes itself stays as it is. */
import { VERDICT_LIMITS } from "../../core/verdict.ts";
import { PYTHON_MAIN } from "./python-main.ts";

/** Room for what stands around the value in result.json. */
const MAX_VALUE_BYTES = VERDICT_LIMITS.bytes - 100;

/** Names of files in `inputs/` of the attempt's directory. */
export const CODE_FILE = "task.py";
export const RUNNER_FILE = "run_task.py";

export const PYTHON_RUNNER = `import ast, asyncio, datetime, functools, inspect, json, mmap, os, sys, threading, time, types, uuid

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


def run():
    given = json.loads(sys.stdin.buffer.read() or b"{}")
    with open(CODE, "rb") as file:
        source = file.read()
    tree = compile(source, CODE, "exec", ast.PyCF_ONLY_AST, True)
    nodes, guards = top_level(tree)
    has_main = any(map(binds_main, nodes))
    is_script = not has_main or ends_with_status([node for body in guards for node in ast.walk(body)])
    module = types.ModuleType("__main__" if is_script else "task")
    module.__file__ = CODE
    module.__dict__.update(os=os, json=json, datetime=datetime, uuid=uuid)
    if is_script or any(isinstance(node, ast.Call) and is_main(node.func) for node in nodes):
        module.__dict__.update((key, value) for key, value in given.items() if not key.startswith("__"))
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
