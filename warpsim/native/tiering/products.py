"""Which products of matrices run compiled: their code is imported where an earlier launch was worth it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from warpsim.isa.traits import Matrix
from warpsim.native.tiering.cost import FIRST_SHARE, HOT, PRODUCT, Account, Policy, account_of_product

if TYPE_CHECKING:
    from warpsim.isa.spec import Body
    from warpsim.machine.machine import Chained
    from warpsim.machine.state.launch import DeviceSpec
    from warpsim.native.matrix.instructions import Matrices
    from warpsim.program.program import Instruction


class Bodies:
    """The functions that execute a launch's instructions. ``compiles`` says whether there is a compiler."""

    def __init__(self, policy: Policy, compiles: Callable[[], bool]) -> None:
        self.policy, self._compiles = policy, compiles
        self._matrices: Matrices | None = None
        self._asked: dict[str, tuple[Account, float]] = {}
        """Accounts of the launch's products, and what was on them at first."""

    def of(self, instruction: Instruction) -> Body:
        """The function that executes an instruction."""
        function: Body = instruction.form.function
        if instruction.traits.matrix is not Matrix.MULTIPLY:
            return function
        account, matrices = self._of(instruction)
        return partial(account.timed, function) if matrices is None else matrices.of(instruction)

    def chained(self, instruction: Instruction, device: DeviceSpec) -> Chained | None:
        """What executes products like it that form a chain, if there is machine code."""
        _, matrices = self._of(instruction)
        return None if matrices is None else matrices.chained(instruction, device)

    def _of(self, instruction: Instruction) -> tuple[Account, Matrices | None]:
        """A product's account, and the machine code of products where it may pay."""
        text = instruction.op.text
        if text not in self._asked:
            account = account_of_product(text)
            self._asked[text] = account, account.interpreted
        account, _ = self._asked[text]
        if self._matrices is None and self._pays(account) and self._compiles():
            from warpsim.native.matrix.instructions import Matrices

            self._matrices = Matrices(self.policy)
        return account, self._matrices

    def _pays(self, account: Account) -> bool:
        """Whether to import the machine code: not for what a first launch cannot use."""
        if self.policy is Policy.AT_ONCE:
            return True
        later = account.launches > 0 or self.policy is Policy.ASKED
        return (later and (account.noted or account.interpreted > HOT)) or account.allows(PRODUCT, FIRST_SHARE)

    def over(self) -> None:
        """The launch is over: queue what would have served it."""
        for account, before in self._asked.values():
            if account.interpreted > before:
                account.launches += 1
                account.keep()
        if self._matrices is not None:
            self._matrices.over()
