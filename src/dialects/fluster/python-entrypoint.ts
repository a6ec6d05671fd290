/** fluster's own entrypoint, a pickled Python callable with its arguments, as a command: a program that is sent along loads it
 *  and calls it, as fluster's worker does. A pickle of cloudpickle needs cloudpickle where it is loaded, and fluster itself only
 *  if the function uses it. What the function returns is dropped: fluster's status does not have it. */
import type { ExecInput } from "../../core/exec-input.ts";

/** Of workers that have python3. */
export const PYTHON_LABEL = { "runtime/python": "yes" } as const;

const PROGRAM = "run_entrypoint.py";

/** Takes the bundle from standard input, if there is one. Its exit code is 1 wherever Python's own would be: whether that is
 *  retried is for the job's retry config to say. */
const SOURCE = `"""Loads entrypoint.pkl, which lies beside this file, and calls what it holds."""
from io import BytesIO
from os import chdir, getcwd, path
from pickle import Unpickler
from sys import argv, exit, path as modules, stdin
from zipfile import ZipFile

HERE = path.dirname(path.abspath(__file__))


class Entrypoint:
    """In the place of fluster's own, where fluster is not installed."""


class Loader(Unpickler):
    def find_class(self, module, name):
        try:
            return super().find_class(module, name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").split(".")[0]
            if missing == "fluster" and module.split(".")[0] == "fluster" and name == "Entrypoint":
                return Entrypoint
            raise


def unpack_bundle():
    workspace = path.abspath("workspace")
    with ZipFile(BytesIO(stdin.buffer.read())) as bundle:
        bundle.extractall(workspace)
    chdir(workspace)
    modules[:0] = [workspace, path.join(workspace, "src")]


def load():
    with open(HERE + "/entrypoint.pkl", "rb") as file:
        loaded = Loader(file).load()
    if isinstance(loaded, tuple) and len(loaded) == 3 and callable(loaded[0]):
        return loaded
    if callable(getattr(loaded, "callable", None)):
        return loaded.callable, getattr(loaded, "args", ()), getattr(loaded, "kwargs", {})
    if callable(loaded):
        return loaded, (), {}
    raise TypeError(f"it holds a {type(loaded).__name__}, and not a callable with its args and kwargs")


def prepared():
    try:
        modules[0] = getcwd()
        if "--bundle" in argv[1:]:
            unpack_bundle()
        return load()
    except ModuleNotFoundError as error:
        package = (error.name or "it").split(".")[0]
        hint = f"pip install {package}, or send it in bundle_blob"
        exit(f"cannot load the entrypoint: python3 of this worker has no module {error.name!r}; {hint}")
    except Exception as error:
        exit(f"cannot load the entrypoint: {type(error).__name__}: {error}")


function, args, kwargs = prepared()
function(*args, **kwargs)
`;

/** `pickle` in base64; `hasBundle`: a zip of its modules comes as standard input. */
export function pythonEntrypoint(pickle: string, hasBundle: boolean): Pick<ExecInput, "argv" | "files"> {
  const program = Buffer.from(SOURCE, "utf8").toString("base64");
  return {
    argv: ["python3", "-u", `inputs/${PROGRAM}`, ...(hasBundle ? ["--bundle"] : [])],
    files: { [PROGRAM]: program, "entrypoint.pkl": pickle },
  };
}
