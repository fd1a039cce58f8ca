"""What a stored result depends on: the code behind it, the commit, the versions of the libraries.

`code_key` is what makes a cached run stale: it changes with the code that the run can reach, and with nothing else.
"""

import ast
import hashlib
import importlib.util
import platform
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from lstoc_core import paths

PACKAGE = __name__.partition(".")[0]
PRESENTATION = (
    "__main__", "cli", "paths", "reproduce", "suggestions", "terminal", "drawing", "study.cache", "study.executors",
    "study.experiments", "study.plans", "study.provenance", "study.stats", "study.tables", "study.variants",
)  # fmt: skip
"""Modules and packages, below this one, that cannot change the data of a run except through its configuration.

An edit there makes no run stale.
"""


def code_key(module: str) -> str:
    """SHA-256 over the code that `module` can reach: itself, and what it imports from its own package and from ours.

    Comments, docstrings and layout do not count. Files are read, not imported.
    """
    packages = {module.partition(".")[0], PACKAGE}
    code: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = _source(name, packages)
        if file is None or name in code or _presents(name):
            continue
        tree = ast.parse(file.read_text())
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        for node in ast.walk(tree):
            waiting += _imports(node, package, packages)
            if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and (
                ast.get_docstring(node, clean=False) is not None
            ):
                del node.body[0]
        if name == PACKAGE:  # imports its modules on first use, so nothing there says which: count all of them
            waiting += [f"{PACKAGE}.{place}" for place in _modules(file.parent)]
        elif (parent := name.rpartition(".")[0]) not in ("", PACKAGE):  # its __init__ runs first
            waiting.append(parent)
        code[name] = ast.dump(tree)
    if module not in code:
        raise ModuleNotFoundError(f"no source file found for the module {module!r}")
    return sha256("\n".join(f"{name} {text}" for name, text in sorted(code.items())).encode())


def _presents(name: str) -> bool:
    """Whether a module is, or lies in, one that cannot change the data of a run."""
    inner = name.removeprefix(f"{PACKAGE}.")
    return any(inner == module or inner.startswith(f"{module}.") for module in PRESENTATION)


def _modules(package: Path) -> Iterator[str]:
    """Dotted names, below the package, of its modules."""
    for file in package.rglob("*.py"):
        if file.stem != "__init__":
            yield ".".join(file.relative_to(package).with_suffix("").parts)


def _source(name: str, packages: set[str]) -> Path | None:
    """The file of a module that belongs to one of the packages."""
    top, *rest = name.split(".")
    spec = importlib.util.find_spec(top) if top in packages else None
    if spec is None or spec.origin is None:
        return None
    if not rest:
        return Path(spec.origin)
    place = Path(spec.origin).parent.joinpath(*rest)
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in candidates if file.is_file()), None)


def _imports(node: ast.AST, package: str, packages: set[str]) -> Iterator[str]:
    """Names of the modules that a statement inside `package` imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
        for alias in node.names:  # a module of the package `base`, or a name in the module `base`
            yield inner if _source(inner := f"{base}.{alias.name}", packages) else base


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(data).hexdigest()


def commit() -> str | None:
    """Commit of this repository, with "+" after it where the package differs from it; None outside a repository."""
    git = ["git", "-C", str(paths.ROOT)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        changes = subprocess.run([*git, "status", "--porcelain", PACKAGE], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + ("+" if changes.stdout.strip() else "")


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that results may depend on."""
    libraries = ("lstoc-core", "cvxpy", "gymnasium", "highspy", "numpy", "pandas", "pyarrow", "scipy", "torch")
    return {"python": platform.python_version()} | {library: version(library) for library in libraries}
