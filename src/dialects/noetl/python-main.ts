/** The part of the python runner that finds out whether a step's code calls its `main` itself. No syntax shows that: a `main`
 *  that is printed, wrapped or passed on need not be called. So calls are watched while the code runs, by a profiler that is
 *  switched on where the code first uses `main`, if it does at all, and off as soon as `main` is entered, so that neither
 *  imports nor `main` are slowed down. Forked processes and threads are watched, too.
 *
 *  What is not seen: a `main` that is to start later, as by `atexit` or a timer, and one in a spawned process. */
export const PYTHON_MAIN = `def top_level(tree):
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
