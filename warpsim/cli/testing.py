"""Commands for testing kernels: equal, shrink, record, init-tests."""

from __future__ import annotations

from argparse import Namespace
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
    from warpsim.testing.equality import equal

    arrays = named_arrays(options.array)
    given = [argument(text, arrays) for text in options.arg]
    for text, each in zip(options.arg, given, strict=True):
        if not isinstance(each, Argument) or each.path:
            raise Unusable(f"--arg {text}: equal takes numbers and arrays, and writes no files")
    kernel = kernel_of(options)
    flags = options.cuda_flags if options.other_flags is None else options.other_flags
    other = kernel_of(
        Namespace(**{**vars(options), "file": options.other, "kernel": options.other_kernel, "cuda_flags": flags})
    )
    device = None if options.device is None else Device(options.device, numerics=options.numerics or "exact")
    found = equal(
        kernel,
        other,
        dims(options.grid),
        dims(options.block),
        [each.recipe or each.value for each in given if isinstance(each, Argument)],
        other_grid=dims(options.other_grid) if options.other_grid else None,
        other_block=dims(options.other_block) if options.other_block else None,
        order=None if options.order is None else dims(options.order),
        inputs=options.inputs,
        ulps=options.ulps,
        device=device,
        shared_mem=options.shared,
        cluster=dims(options.cluster) if options.cluster else None,
        **{**launch_options(options), "on_finding": "raise", "profile": False},
    )
    PROGRESS.erase()
    if options.json:
        document(found.plain())
    else:
        print(found)
    return 0 if found else 1


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
