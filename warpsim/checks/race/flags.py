"""Flags: strong accesses through which threads release and acquire (memory consistency model, release and acquire
patterns).

A flag used by a single thread orders nothing yet. Its cell records when that thread last released through it (its
*lead*). It becomes a sync variable when another thread uses it, with what the first one knew. Many threads that each
fence and store to their own places thus cost little.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import attrs
import numpy as np

from warpsim.checks.cells import SHIFT, THREAD, Cells
from warpsim.checks.race.clocks import CTA, BatchClocks, objects
from warpsim.checks.race.vector_clocks import Past, by_column
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array
from warpsim.numerics.arrays import distinct
from warpsim.records import frozen

MANY, CROWD = 64, -100
"""More sync variables than this in one step count as one, at an address outside all memory."""
SC = "sc"
"""What distinguishes the sync variable of a flag that holds what fence.sc precede."""
SHARED_BY_MANY = -1
"""The lead of a flag that is a sync variable."""


@frozen(eq=False)
class FlagAccess:
    """Strong accesses of a step (where ``active``) at each ``place``, of the memory of ``cells`` that begins at ``start``;
    ``columns`` is None for global memory."""

    group: Group
    cells: Cells
    place: Array
    active: Array | None
    columns: Array | None
    start: int
    reads: bool
    writes: bool

    def flat(self, positions: Array, n_ctas: int) -> tuple[Users, Array]:
        """The participating threads and their cells; ``positions`` may be those of one CTA."""
        shape, place, cells = positions.shape, self.place, self.cells
        if place.size == 1 and place.ndim != positions.ndim:
            place = place.reshape((1,) * positions.ndim)
        place = np.broadcast_to(place, shape)
        columns = positions % n_ctas if self.columns is None else np.broadcast_to(self.columns, shape)
        chosen = slice(None) if self.active is None else np.broadcast_to(self.active, shape).reshape(-1)
        place, positions, columns = (x.reshape(-1)[chosen] for x in (place, positions, columns))
        index = (place - self.start) // cells.granule
        users = Users(place, positions, columns, shared=self.columns is not None)
        return users, index if cells.width == 1 else index * cells.width + columns


@frozen(eq=False)
class Users:
    """Threads at ``positions`` that use flags: at ``place`` in ``columns`` of shared memory, or of global memory (then the columns
    are their own)."""

    place: Array
    positions: Array
    columns: Array
    shared: bool

    def only(self, which: Array) -> Users:
        """Some of them."""
        return Users(self.place[which], self.positions[which], self.columns[which], self.shared)

    def crowded(self) -> Users:
        """The same at one place outside all memory."""
        return attrs.evolve(self, place=np.full_like(self.place, CROWD))


class Flags:
    """The flags of a batch's threads."""

    def __init__(self, clocks: BatchClocks) -> None:
        self.clocks = clocks
        clocks.launch.flags_of_batches.append(self)

    @property
    def has_flags(self) -> bool:
        """Whether this step's strong access can be to a flag: it or a fence before releases, or a flag exists."""
        launch = self.clocks.launch
        return self.clocks.role.release or bool(self.clocks.order.fences or launch.pasts or launch.flags)

    def strong(self, access: FlagAccess) -> None:
        """Treat strong accesses as flags: a read acquires (at once, or with the next fence) what an earlier write
        released."""
        if not self.has_flags or self._is_own(access):
            return
        clocks, narrow = self.clocks, self.clocks.role.level == CTA
        clocks.widen()
        users, index = access.flat(access.group.selection.positions, clocks.n_ctas)
        self._share_leads(access.cells, users, index)
        if access.writes:
            gives = self._publish(users, narrow=narrow)
            if not narrow:
                self._give(users, clocks.order.fenced(users.positions, "sc"), narrow=users.shared, sc=True)
            access.cells.of("lead")[index[gives]] = SHARED_BY_MANY
        for address in (
            clocks.launch.flags.intersection([*distinct(users.place).tolist(), CROWD])
            if access.reads and not clocks.launch.any_contents
            else ()
        ):
            here = users.crowded() if address == CROWD else users
            for scope in (True,) if narrow or users.shared else (False, True):
                for mine, key in self._keys(address, here, narrow=scope):
                    self._take(mine, key, narrow=narrow)

    def _publish(self, users: Users, *, narrow: bool) -> Array:
        """Release through flags that are written; a mask of the threads that do, by this access or an earlier fence."""
        order, positions = self.clocks.order, users.positions
        if self.clocks.role.release:
            self._give(users, np.full(len(positions), self.clocks.now + 1), narrow=narrow)
            return np.ones(len(positions), np.bool_)
        near, far = (order.fenced(positions, scope) for scope in ("cta", "gpu"))
        if narrow or (users.shared and not self.clocks.clustered):
            self._give(users, near, narrow=True)
        else:  # a fence of CTA scope makes it a release to the CTA
            self._give(users, far, narrow=False)
            if not users.shared:
                self._give(users, np.where(near > far, near, 0), narrow=True)
        return near > 0

    # ---- flags of one thread -----------------------------------------------------------------

    def _is_own(self, access: FlagAccess) -> bool:
        """Whether each thread accesses a place that no other has used as a flag; notes releases there."""
        clocks, order, cells, shared = self.clocks, self.clocks.order, access.cells, access.columns is not None
        narrow, positions = clocks.role.level == CTA, access.group.selection.positions
        uniform = shared and order.uniform
        if uniform:  # all CTAs do the same
            positions, mask = positions[:, :, :1, :1], access.active
            mask = None if mask is None else mask[:, :, :1, :1]
            access = attrs.evolve(access, columns=np.zeros((1, 1, 1, 1), np.int64), active=mask)
        users, index = access.flat(positions, clocks.n_ctas)
        positions = users.positions
        threads = positions // clocks.n_ctas if uniform else positions + (0 if shared else clocks.base)
        lead = cells.of("lead")
        seen = lead[index]
        if ((seen != 0) & (seen & THREAD != threads)).any():
            return False
        near = order.fenced(positions, "cta")
        if not access.writes or not (near.any() or clocks.role.release):
            return True
        if clocks.role.release:
            own = np.full(len(positions), clocks.now + 1)
        else:
            own = near if narrow or (shared and not clocks.clustered) else order.fenced(positions, "gpu")
        if not shared and (narrow or (near > own).any()):
            return False
        gives = own > 0
        epoch = (own << SHIFT | threads)[gives]
        past = order.past_of(positions[gives], own[gives]) if gives.any() else None
        if past is None:
            return not gives.any()
        lead[index[gives]] = epoch
        if (lead[index[gives]] != epoch).any():  # several threads at one place
            lead[index] = seen
            return False
        cells.of("past")[index[gives]] = 2 * clocks.launch.past(past) + (own == order.fenced(positions, "sc"))[gives]
        return True

    def _share_leads(self, cells: Cells, users: Users, index: Array) -> None:
        """Turn flags at these places, used by one thread so far, into sync variables."""
        lead = cells.of("lead")
        _, first = np.unique(index, return_index=True)
        first = first[lead[index[first]] > 0]
        if not len(first):
            return
        launch, shared, users = self.clocks.launch, users.shared, users.only(first)
        seen, pasts = lead[index[first]], cells.of("past")[index[first]]
        lead[index[first]] = SHARED_BY_MANY
        threads = seen & THREAD
        owners = launch.numbers.owners(threads) if not shared else 0 * threads
        for number, mine in by_column(np.arange(len(threads)), owners):
            batch = self if shared else launch.flags_of_batches[number]
            positions = threads[mine] - (0 if shared else batch.clocks.base)
            columns = users.columns[mine] if shared else positions % batch.clocks.n_ctas
            theirs = Users(users.place[mine], positions, columns, shared)
            for past, some in by_column(np.arange(len(mine)), pasts[mine]):
                own, known = seen[mine[some]] >> SHIFT, launch.pasts[past >> 1]
                for sc in (False, True)[: 1 + past % 2]:
                    batch._give(theirs.only(some), own, known, narrow=shared, sc=sc)

    # ---- flags of many -----------------------------------------------------------------------

    def _give(self, users: Users, own: Array, past: Past | None = None, *, narrow: bool, sc: bool = False) -> None:
        """Release the threads' accesses before ``own`` (0: none), and what they know or knew, through flags; ``sc``: for
        later fence.sc."""
        gives = own > 0
        if not gives.any():
            return
        self.clocks.widen()
        own, users = own[gives], users.only(gives)
        addresses = distinct(users.place).tolist()
        if len(addresses) > MANY:
            addresses, users = [CROWD], users.crowded()
        self.clocks.launch.flags.update(addresses)
        if (users.shared or narrow) and self._give_apart(users, own, past, sc=sc):
            return
        for address in addresses:
            for mine, key in self._keys(address, users, narrow=narrow):
                times = own if len(mine) == len(own) else own[np.isin(users.positions, mine)]
                self.clocks.order.publish((SC, key) if sc else key, mine, times, past)

    def _give_apart(self, users: Users, own: Array, past: Past | None, *, sc: bool) -> bool:
        """Handle the flags of all CTAs at once, if every CTA has its own."""
        columns, place, positions = users.columns, users.place, users.positions
        if (columns != positions % self.clocks.n_ctas).any():
            return False
        order, found = objects(columns, place)
        if len(found) < 2 or (not users.shared and int(place.max()) >> 32):
            return False
        starts = np.array([start for start, _ in found])
        places = zip(columns[order[starts]].tolist(), place[order[starts]].tolist(), strict=True)
        keys = [self._key(column, address, shared=users.shared) for column, address in places]
        keys = [(SC, key) for key in keys] if sc else keys
        return self.clocks.order.publish_apart(keys, starts, positions[order], own[order], past)

    def _keys(self, address: int, users: Users, *, narrow: bool) -> Iterator[tuple[Array, Hashable]]:
        """The threads at an address, and their sync variable."""
        here = users.only(users.place == address)
        if not users.shared and not narrow:
            yield here.positions, ("gpu", address)
            return
        for column, mine in by_column(here.positions, here.columns):
            yield mine, self._key(column, address, shared=users.shared)

    def _key(self, column: int, address: int, *, shared: bool) -> Hashable:
        """The sync variable of a CTA at an address of its shared memory, or of global memory."""
        cta = self.clocks.base + column
        return (cta, address) if shared else (cta, "cta", address)

    def _take(self, positions: Array, key: Hashable, *, narrow: bool) -> None:
        rows = self.clocks.launch.variables.get(key)
        if narrow and isinstance(key, tuple) and key[1] == "cta":  # a wider release of the same CTA serves as well
            wider = self.clocks.launch.variables.get(("gpu", key[2]), {}).get(key[0])
            rows = rows if wider is None else {**(rows or {}), key[0]: wider}
        if not rows:
            return
        self.clocks.widen()
        if self.clocks.role.acquire:
            self.clocks.order.acquire(rows, positions)
        else:
            self.clocks.order.expect(rows, positions)
            self.clocks.unfenced.read(self.clocks.launch.events[-1], positions, self.clocks.now, rows)
            covered = self.clocks.launch.variables.get((SC, key))
            if covered:
                self.clocks.order.observe(covered, positions)
