"""The options of a launch and of the commands that launch, as a caller gives them: the command line knows them before it imports
what runs a launch."""

from __future__ import annotations

from collections.abc import Callable

from warpsim.host.options import Checks, Dim
from warpsim.records import frozen

BATCH_THREADS = 1 << 17
MAX_INSTRUCTIONS = 10**9


def number(text: str) -> float | None:
    """Parse a limit: a number, or ``none``."""
    return None if text == "none" else float(text) if not text.isdecimal() else int(text)


ENGINES = ("auto", "interpreter", "compiled")
EFFECTS = ("eager", "at_wait")
ON_FINDING = ("raise", "collect")


OPTIONS: dict[str, dict[str, object]] = {
    "checks": {
        "help": "default (every rule but race), all or none, then +NAME or -NAME to change it; or a list of rules and groups"
    },
    "on_finding": {
        "default": ON_FINDING[0],
        "help": "end a launch at its first error, or continue where possible",
        "choices": ON_FINDING,
    },
    "async_effects": {
        "help": "asynchronous operations act at issue (eager), or as late as the rules allow",
        "choices": EFFECTS,
    },
    "max_instructions": {
        "default": MAX_INSTRUCTIONS,
        "help": "stop after N warp-instructions (1000000000), or none",
        "type": number,
        "metavar": "N",
    },
    "max_seconds": {"help": "stop after S seconds of wall-clock time, or none", "type": number, "metavar": "S"},
    "schedule": {"help": "run warps, CTAs and completions in another legal order", "type": int, "metavar": "SEED"},
    "device": {"help": "the GPU, for example sm_90a"},
    "numerics": {
        "help": "matrix products with the GPU's bits, or in float64 rounded once",
        "choices": ("exact", "ieee"),
    },
    "profile": {"default": False, "help": "count what each line does", "action": "store_true"},
    "shadow": {
        "help": "compute every float value in higher precision as well, and say where error is born",
        "choices": ("f64",),
    },
    "engine": {"help": "compile to machine code where it pays (auto), never, or wherever possible", "choices": ENGINES},
    "workers": {"help": "divide the work among N local processes", "type": int, "metavar": "N"},
    "executor": {"help": "divide the work among the workers of a cluster: dask://HOST:PORT", "metavar": "ADDRESS"},
}
"""Fields that commands have as an option, with what argparse takes."""


@frozen(kw_only=True, slots=False)
class Options:
    """The options of a launch as a caller gives them, not checked yet; `Kernel.__call__` says what they are. None leaves
    the session's default, or the usual one."""

    shared_mem: int = 0
    cluster: Dim | None = None
    cooperative: bool = False
    checks: Checks = None
    on_finding: str = ON_FINDING[0]
    async_effects: str | None = None
    max_instructions: float | None = MAX_INSTRUCTIONS
    max_seconds: float | None = None
    schedule: int | None = None
    batch_threads: int = BATCH_THREADS
    by_warp: bool = False
    """Whether the launch runs warp by warp, as a debug session steps it."""
    keeps: bool = False
    """Whether the state before each step may be asked for again."""

    def over(self, *defaults: object) -> Options:
        """These, and where they are None those of ``defaults``, the first that has one."""
        found = {
            name: value
            for name in ("checks", "async_effects", "max_seconds", "schedule")
            if getattr(self, name) is None
            for given in reversed(defaults)
            if (value := getattr(given, name, None)) is not None
        }
        if not found:
            return self
        from attrs import evolve  # commands start without attrs

        return evolve(self, **found)


@frozen(kw_only=True, slots=False)
class CommandOptions(Options):
    """The options of commands that launch: those of the launch, the GPU, and how the launch is run."""

    device: str | None = None
    numerics: str | None = None
    profile: bool = False
    shadow: str | None = None
    engine: str | None = None
    workers: int | None = None
    executor: str | None = None


def add_options(add: Callable[..., object], names: str, **defaults: object) -> None:
    """Declare options by their names; ``add`` is argparse's ``add_argument``. An option's default is its field's, unless
    ``defaults`` has one."""
    for name in names.split():
        options = OPTIONS[name]
        default = defaults.get(name, options.get("default"))
        add(f"--{name.replace('_', '-')}", **options | {"default": default})
