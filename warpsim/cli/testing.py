"""Commands for testing kernels: equal, shrink, record, init-tests."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from warpsim.cli.output import Unusable, document
from warpsim.errors import LaunchError

FILES = {
    "README.md": "README.md",
    "pyproject.toml": "pyproject.toml",
    "kernels/axpy.cu": "kernels/axpy.cu",
    "kernels/axpy.ptx": "kernels/axpy.ptx",
    "kernels/build.py": "kernels/build.py",
    "tests/test_axpy.py": "tests/test_axpy.py",
    "tests/snapshot.txt": "tests/__snapshots__/test_axpy/test_bits.y.txt",
    "workflow/tests.yml": ".github/workflows/tests.yml",
}
"""Files of ``warpsim/testing/starter/``, and where they go."""


def command_equal(options: Namespace) -> int:
    """Compare two kernels on a launch; the status is 0 where they leave the same, 1 where not."""
    from warpsim.cli.arguments import Argument, argument, dims, named_arrays
    from warpsim.cli.launching import PROGRESS, kernel_of, launch_options
    from warpsim.host.device import Device
    from warpsim.testing.equality import equal, equal_case

    flags = options.cuda_flags if options.other_flags is None else options.other_flags
    name = options.other_kernel or options.kernel
    other = kernel_of(Namespace(**{**vars(options), "file": options.other, "kernel": name, "cuda_flags": flags}))
    common = {
        **launch_options(options),
        "order": None if options.order is None else dims(options.order),
        "other_grid": dims(options.other_grid) if options.other_grid else None,
        "other_block": dims(options.other_block) if options.other_block else None,
        "other_shared_mem": options.other_shared,
        "ulps": options.ulps,
        "device": None if options.device is None else Device(options.device, numerics=options.numerics or "exact"),
        "on_finding": "raise",
        "profile": False,
    }
    case = _case_of(options)
    if case is not None:
        found = equal_case(case, other, reference=_reference(options.reference, None), **common)
    else:
        arrays = named_arrays(options.array)
        given = [argument(text, arrays) for text in options.arg]
        for text, each in zip(options.arg, given, strict=True):
            if not isinstance(each, Argument) or each.path:
                raise Unusable(f"--arg {text}: equal takes numbers and arrays, and writes no files")
        args = [each.recipe or each.value for each in given if isinstance(each, Argument)]
        found = equal(
            kernel_of(options),
            other,
            dims(options.grid),
            dims(options.block),
            args,
            inputs=options.inputs,
            reference=_reference(options.reference, args, options.inputs),
            shared_mem=options.shared,
            cluster=dims(options.cluster) if options.cluster else None,
            **common,
        )
    PROGRESS.erase()
    if options.json:
        document(found.plain())
    else:
        print(found)
    return 0 if found else 1


def _case_of(options: Namespace) -> Path | None:
    """The case that A is; None where it is a text, whose launch is described then."""
    from warpsim.cli.launching import find_case

    if Path(options.file).is_file():
        if options.grid is None or options.block is None:
            raise Unusable("a text needs --grid and --block; only a recorded case has its own")
        return None
    described = [name for name in ("grid", "block", "arg", "array", "cluster", "shared") if getattr(options, name)]
    if described or options.inputs > 1:
        what = f"--{described[0]}" if described else "other inputs"
        raise Unusable(f"{options.file} is no file; a recorded case has a launch and an input, and takes no {what}")
    return find_case(options.file)


def _reference(given: list[str], args: list[object] | None, inputs: int = 1) -> Callable[..., list[object]] | None:
    """What computes, or holds, the exact values of ``--reference``; ``args`` are those of the launch (None: of a case)."""
    import numpy as np

    from warpsim.host.arrays import is_buffer
    from warpsim.host.recipes import Recipe

    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return _function(given[0])
    held: dict[int, object] = {}
    for text in given:
        number, _, path = text.partition("=")
        if not number.isdecimal():
            raise Unusable(f"--reference {text}: write N=FILE.npy, the number of an argument from 0, or FILE.py[:NAME]")
        try:
            held[int(number)] = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as problem:
            raise Unusable(f"--reference {text}: {problem}") from None
    if inputs > 1:
        raise Unusable("--reference N=FILE.npy holds the values of one input; with --inputs, pass FILE.py[:NAME]")

    def reference(*values: object) -> list[object]:
        places = [k for k, v in enumerate(args or values) if isinstance(v, Recipe) or is_buffer(v)]
        unknown = sorted(held.keys() - set(places))
        if unknown:
            raise LaunchError(f"argument {unknown[0]} is no array; those that are: {', '.join(map(str, places))}")
        return [held.get(k) for k in places]

    return reference


def _function(text: str) -> Callable[..., list[object]]:
    import runpy

    path, _, name = text.rpartition(":") if not text.endswith(".py") else (text, "", "reference")
    if not Path(path).is_file():
        raise Unusable(f"--reference {text}: there is no file {path or text}")
    try:
        found = runpy.run_path(path).get(name)
    except Exception as problem:  # whatever the user's file raises
        raise Unusable(f"--reference {text}: {type(problem).__name__}: {problem}") from None
    if not callable(found):
        raise Unusable(f"--reference {text}: {path} has no function {name}")
    made: Callable[..., list[object]] = found
    return made


def command_shrink(options: Namespace) -> int:
    """Shrink a failing case."""
    from warpsim.cli.launching import find_case
    from warpsim.testing.shrinking import shrink

    case = find_case(options.case)
    given = {name: getattr(options, name) for name in ("checks", "async_effects", "schedule")}
    said: list[str] = []
    written = shrink(
        case,
        options.output or case.with_name(f"{case.name}-small"),
        seconds=options.seconds,
        said=said.append if options.json else print,
        **{key: value for key, value in given.items() if value is not None},
    )
    if options.json:
        document({"case": str(written), "steps": said})
    else:
        print(f"written: {written}; run: warpsim replay {written}")
    return 0


def command_record(options: Namespace) -> int:
    """Record the launches of a program on this machine's GPU."""
    from warpsim.capture.session import record_command

    return record_command(options.program, options.output, options.kernels, options.launches)


def command_init_tests(options: Namespace) -> int:
    """Write a starter repository with kernel tests."""
    folder = Path(options.directory)
    there = [name for name in FILES.values() if (folder / name).exists()]
    if there:
        raise LaunchError(f"{folder} has {', '.join(there)} already")
    source = resources.files("warpsim.testing").joinpath("starter")
    try:
        for name, place in FILES.items():
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            text = source.joinpath(*name.split("/")).read_text(encoding="utf-8")
            target.write_text(text, encoding="utf-8", newline="\n")
    except OSError as problem:
        raise LaunchError(f"cannot write {folder}: {problem}") from None
    names = sorted(FILES.values())
    if options.json:
        document({"directory": options.directory, "files": names})
    else:
        print(*names, f"now: cd {options.directory} && python -m pytest", sep="\n")
    return 0
