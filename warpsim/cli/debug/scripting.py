"""Commands that work with commands: files, definitions, conditions and loops, text, the shell."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable

import numpy as np

from warpsim.cli.debug.console import Commands, Defined, Quiet
from warpsim.cli.debug.table import command
from warpsim.debug import DebugError
from warpsim.host.files import text_of

DEEPEST = 20
"""Most command files within each other."""
VERB = re.compile(r"%[-+ 0#]*\d*(?:\.\d+)?(?:hh|h|ll|l|z)?([diuxXocfgeEsp%])")


class Scripting(Commands):
    """The commands source, define, document, if, while, printf, shell and so on."""

    @command("talk", "FILE", takes="file")
    def do_source(self, text: str) -> None:
        """Execute the commands in FILE."""
        if self.console.files > DEEPEST:
            raise DebugError("command files nest too deep")
        try:
            lines = text_of(text).splitlines()
        except (OSError, ValueError) as problem:
            raise DebugError(f"cannot read {text}: {problem}") from None
        self.console.files += 1
        self.console.queue[:0] = lines

    @command("talk", "NAME")
    def do_define(self, text: str) -> None:
        """Define a command: the lines that follow, up to "end", are executed whenever NAME is typed. In them $arg0, $arg1
        and so on stand for the words behind it, and $argc for their number."""
        if not re.fullmatch(r"[A-Za-z][\w-]*", text):
            raise DebugError("define NAME, then the commands, one per line, and end")
        if text in self.console.commands:
            raise DebugError(f"{text} is a command already; choose another name")
        self.console.defined[text] = Defined(self.console.block())

    @command("talk", "NAME")
    def do_document(self, text: str) -> None:
        """Write the help of a defined command: the lines that follow, up to "end"."""
        lines = self.console.block()
        if text not in self.console.defined:
            raise DebugError(f"{text[:40]!r} has not been defined: define {text[:40] or 'NAME'} comes first")
        self.console.defined[text].help = "\n".join(lines)

    def caller(self, name: str) -> Callable[[str], None]:
        """What executes a defined command."""
        return lambda text: self._call(name, text)

    def _call(self, name: str, text: str) -> None:
        words = text.split()

        def argument(found: re.Match[str]) -> str:
            if found[1] == "c":
                return str(len(words))
            number = int(found[1])
            return words[number] if number < len(words) else found[0]

        lines = [re.sub(r"\$arg(c|\d{1,3})\b", argument, line) for line in self.console.defined[name].lines]
        self.console.queue[:0] = map(Quiet, lines)

    @command("talk", "EXPRESSION", takes="expression")
    def do_if(self, text: str) -> None:
        """Execute the lines that follow, up to "end", if EXPRESSION is true in some lane. Lines behind "else" are executed
        if it is not."""
        lines, depth, other = self.console.block(), 0, None
        for number, line in enumerate(lines):
            word = line.split()[0] if line else ""
            depth += (word in ("if", "while", "commands", "define", "document")) - (word == "end")
            if word == "else" and depth == 0:
                other = number
                break
        chosen = lines[:other] if self._true(text) else lines[other + 1 :] if other is not None else []
        self.console.queue[:0] = map(Quiet, chosen)

    @command("talk", "EXPRESSION", takes="expression")
    def do_while(self, text: str) -> None:
        """Execute the lines that follow, up to "end", as long as EXPRESSION is true in some lane. Ctrl-C ends the loop."""
        lines = self.console.block()
        if self._true(text):
            self.console.queue[:0] = map(Quiet, [*lines, f"while {text}", *lines, "end"])

    def _true(self, text: str) -> bool:
        return bool(np.ma.any(np.ma.asarray(self.session.evaluate(text)) != 0))

    @command("talk", "TEXT", looks=True)
    def do_echo(self, text: str) -> None:
        r"""Print TEXT; \n in it begins a line."""
        self.say(text.replace("\\n", "\n").rstrip("\n"))

    @command("talk", '"FORMAT", EXPRESSION...', takes="expression", looks=True)
    def do_printf(self, text: str) -> None:
        """Print values as C's printf does, those of the lane in focus: printf "%d of %x\\n", %r1, n."""
        found = re.fullmatch(r'\s*"((?:[^"\\]|\\.)*)"\s*(?:,(.*))?', text, re.DOTALL)
        if found is None:
            raise DebugError('printf "FORMAT", EXPRESSION..., for example printf "%d %f\\n", %r1, %f2')
        values = iter(_split(found[2] or ""))

        def one(verb: re.Match[str]) -> str:
            if verb[1] == "%":
                return "%"
            expression = next(values, None)
            if expression is None:
                raise DebugError("printf: the format names more values than follow it")
            return self._verb(verb[0], verb[1], expression)

        escaped = found[1].replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")
        said = VERB.sub(one, escaped)
        if next(values, None) is not None:
            raise DebugError("printf: the format names fewer values than follow it")
        self.say(said.removesuffix("\n"))

    def _verb(self, verb: str, kind: str, expression: str) -> str:
        value = self.session.evaluate(expression)
        data = np.ma.getdata(value)
        number = data[self.session.thread.lane] if isinstance(value, np.ma.MaskedArray) else data
        if np.asarray(number).ndim:
            raise DebugError(f"printf takes one value, and {expression.strip()} is an array")
        plain = re.sub(r"hh|h|ll|l|z", "", verb)
        if kind in "diuxXocp":
            whole = int(number)
            return chr(whole & 255) if kind == "c" else hex(whole) if kind == "p" else plain.replace("u", "d") % whole
        return str(plain % (float(number) if kind != "s" else number))

    @command("talk", "COMMAND", aliases="! make")
    def do_shell(self, text: str) -> None:
        """Execute COMMAND in the system's shell. !COMMAND does the same."""
        if not text:
            raise DebugError("shell COMMAND, for example shell ls")
        done = subprocess.run(text, shell=True, capture_output=True, text=True, errors="replace", check=False)
        for said in (done.stdout, done.stderr):
            if said:
                self.say(said.rstrip("\n"))
        if done.returncode:
            self.say(f"exit status {done.returncode}")

    @command("talk", looks=True)
    def do_pwd(self, text: str) -> None:
        """Show the working directory."""
        self.say(f"Working directory {os.getcwd()}.")

    @command("talk", "DIRECTORY", takes="file")
    def do_cd(self, text: str) -> None:
        """Change the working directory, where source and shell look for files."""
        try:
            os.chdir(os.path.expanduser(text or "~"))
        except OSError as problem:
            raise DebugError(f"cannot change to {text}: {problem.strerror}") from None
        self.do_pwd("")


def _split(text: str) -> list[str]:
    """Split expressions at commas outside parentheses and brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]
