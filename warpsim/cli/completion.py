"""``warpsim completion``: the script that makes a shell complete warpsim's command line, and the words that it asks for."""

from __future__ import annotations

import argparse
import contextlib
import io
from argparse import Namespace
from collections.abc import Iterable, Sequence

from warpsim.cli.grammar import parser
from warpsim.cli.output import Unusable
from warpsim.errors import WarpsimError
from warpsim.host.options import WORDS

SCRIPTS = {
    "bash": """\
# warpsim: in ~/.bashrc, eval "$(warpsim completion bash)"
_warpsim() {
    local word=${COMP_WORDS[COMP_CWORD]} IFS=$'\\n'
    [[ $word == "=" ]] && word=
    COMPREPLY=($(compgen -W "$(warpsim completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "$word"))
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[:=.] ]] && compopt -o nospace
}
COMP_WORDBREAKS=${COMP_WORDBREAKS//:}
complete -o default -F _warpsim warpsim
""",
    "zsh": """\
# warpsim: in ~/.zshrc behind compinit, eval "$(warpsim completion zsh)"
_warpsim() {
    local -a found
    found=(${(f)"$(warpsim completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then compadd -- $found; else _files; fi
}
compdef _warpsim warpsim
""",
    "fish": """\
# warpsim: warpsim completion fish > ~/.config/fish/completions/warpsim.fish
complete -c warpsim -a '(warpsim completion fish -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
""",
}


def command_completion(options: Namespace) -> int:
    """Print a shell's script, or the words that may stand for the last of those given."""
    if not options.word:
        print(SCRIPTS[options.shell], end="")
        return 0
    with contextlib.suppress(WarpsimError, Unusable, OSError):
        print(*offered(options.word), sep="\n")
    return 0


def offered(words: Sequence[str]) -> list[str]:
    """The words that begin with the last of some words, and may stand in its place on warpsim's command line."""
    *before, last = words
    at: argparse.ArgumentParser = parser()
    given: list[str] = []
    option: argparse.Action | None = None
    for word in before:
        inner = next((a for a in at._actions if isinstance(a, argparse._SubParsersAction)), None)
        if word == "=":  # bash makes it a word of its own
            continue
        if option is not None:
            option = None
        elif word.startswith("-"):
            known = at._option_string_actions.get(word)
            option = known if known is not None and known.nargs != 0 else None
        elif inner is not None and word in inner.choices:
            at, given = inner.choices[word], []
        else:
            given.append(word)
    name, equals, value = last.partition("=")
    if equals and name in at._option_string_actions:
        return [f"{name}={each}" for each in _begin(_values(at._option_string_actions[name], given, value), value)]
    if option is not None:
        return _begin(_values(option, given, last), last)
    if last.startswith("-"):
        return _begin(at._option_string_actions, last)
    positional = [action for action in at._actions if not action.option_strings]
    free = next((a for n, a in enumerate(positional) if n >= len(given) or a.nargs in ("+", "*")), None)
    return _begin(_values(free, given, last), last) if free is not None else []


def _begin(found: Iterable[str], text: str) -> list[str]:
    return sorted({word for word in found if word.startswith(text)})


def _values(action: argparse.Action, given: Sequence[str], text: str) -> Iterable[str]:
    """The values of an option or an argument; none where they are files."""
    if action.choices is not None:
        return [str(each) for each in action.choices]
    match action.dest:
        case "case" | "name":
            from warpsim.cli.launching import programs

            folder = programs()
            return [path.name for path in folder.iterdir() if (path / "case.json").exists()] if folder.is_dir() else []
        case "kernel" if given:
            from warpsim.host.kernel import load_file

            with contextlib.redirect_stderr(io.StringIO()):
                return list(load_file(given[0]).kernels)
        case "graph" | "instruction":
            from warpsim.isa.matching import continued

            return continued(text)
        case "device":
            from warpsim.host.targets import SHARED_LIMIT

            return [f"sm_{number}{'a' * (number >= 90)}" for number in SHARED_LIMIT]
        case "checks":
            return _rules(text)
        case "arg" | "array":
            from warpsim.host.recipes import DTYPES, GENERATORS

            kinds = ["in", "inout", "out", "zeros", "bytes", *GENERATORS, *DTYPES]
            if action.dest == "array":
                name, equals, _ = text.partition("=")
                return [f"{name}={kind}:" for kind in kinds] if equals else []
            return [f"{kind}:" for kind in (*kinds, "array", "tensormap", "texture", "surface", "struct")]
    return []


def _rules(text: str) -> list[str]:
    """The sets of rules, and the rules with what stands before them."""
    head = text[: max(text.rfind(sign) for sign in "+-,") + 1]
    return [f"{head}{name}" for name in WORDS]
