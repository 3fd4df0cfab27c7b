"""Folders and files that others may have written are not used, and what is written is the user's alone."""

import errno
import os
import socket
import stat
import sys
import warnings
from pathlib import Path

import pytest

from warpsim import owned

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def named(monkeypatch, tmp_path):
    """What becomes of a folder that ``WARPSIM_CACHE`` names: the folder that is used, and what is said."""

    def act(path):
        monkeypatch.setenv("WARPSIM_CACHE", str(path))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            return owned.cache_folder.__wrapped__(), [str(each.message) for each in said]

    return act


@pytest.fixture
def give_away(monkeypatch):
    """Make a file another user's: root can, and anybody else becomes another user."""

    def act(path):
        if ROOT:
            os.chown(path, 65534, -1, follow_symlinks=False)
        else:
            monkeypatch.setattr(owned.os, "geteuid", lambda: 65534)

    return act


def mode(path):
    """The permissions of a file."""
    return stat.S_IMODE(path.lstat().st_mode)


# ---- folders -------------------------------------------------------------------------------------


def test_the_folder(monkeypatch, tmp_path):
    """``WARPSIM_CACHE`` names it, and where that is empty there is none; else it is in the user's folder for caches."""
    folder = owned.cache_folder.__wrapped__
    monkeypatch.setenv("WARPSIM_CACHE", str(tmp_path / "a" / "b"))
    assert folder() == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()
    monkeypatch.setenv("WARPSIM_CACHE", "")
    assert folder() is None
    monkeypatch.delenv("WARPSIM_CACHE")
    for system, variable, parts in (
        ("linux", "XDG_CACHE_HOME", ("warpsim",)),
        ("win32", "LOCALAPPDATA", ("warpsim",)),
        ("darwin", "HOME", ("Library", "Caches", "warpsim")),
    ):
        monkeypatch.setattr(owned.sys, "platform", system)
        monkeypatch.setenv(variable, str(tmp_path / system))
        if system == "darwin":
            monkeypatch.setattr(owned.Path, "home", lambda: tmp_path / "darwin")
        assert folder() == tmp_path.joinpath(system, *parts)
    monkeypatch.setattr(owned.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert folder() == tmp_path / "darwin" / ".cache" / "warpsim"


def test_no_home(monkeypatch):
    """A user without a home has no cache, and it is no fault."""

    def home():
        raise RuntimeError("Could not determine home directory.")

    for name in ("WARPSIM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(owned.sys, "platform", "linux")
    monkeypatch.setattr(owned.Path, "home", home)

    assert owned.cache_folder.__wrapped__() is None


@posix
@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_what_is_made_is_the_users_alone(named, tmp_path, mask):
    """Folders have mode 0700 and files 0600, whatever the umask."""
    before = os.umask(mask)
    try:
        folder, said = named(tmp_path / "a" / "b")
        owned.write(folder / "file", b"text")
    finally:
        os.umask(before)

    assert (folder, said) == (tmp_path / "a" / "b", [])
    assert [mode(tmp_path / "a"), mode(folder), mode(folder / "file")] == [0o700, 0o700, 0o600]
    assert owned.read(folder / "file", 4) == b"text"


@posix
@pytest.mark.parametrize("permissions", [0o777, 0o775, 0o757, 0o1777])
@pytest.mark.parametrize("made", [True, False])
def test_a_folder_that_others_may_write(named, tmp_path, permissions, made):
    """It is not used, and this is said; so is one below it, except in one like /tmp, and nothing is made there."""
    above, folder = tmp_path / "above", tmp_path / "above" / "cache"
    (folder if made else above).mkdir(mode=0o700, parents=True)
    above.chmod(permissions)
    sticky = permissions & stat.S_ISVTX
    why = f"{above} may be written by other users (mode {permissions:o}; mend it with chmod go-w)"
    refused = (None, [f"WARPSIM_CACHE is not used: {why}"])

    assert named(above) == refused
    assert named(folder) == ((folder, []) if sticky else refused)
    assert folder.exists() == bool(made or sticky)


@posix
def test_a_folder_of_another_user(named, give_away, tmp_path):
    """It is not used, nor is one below it, nor one that a link leads to."""
    (tmp_path / "theirs" / "cache").mkdir(parents=True, mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    give_away(tmp_path / "theirs")

    for name in ("theirs", "theirs/cache", "theirs/new", "link"):
        folder, said = named(tmp_path / name)
        assert folder is None
        assert len(said) == 1
        assert "belongs to another user (" in said[0]
    assert not (tmp_path / "theirs" / "new").exists()


@posix
@pytest.mark.skipif(not ROOT, reason="only root makes folders of root")
def test_folders_above_of_root(monkeypatch, tmp_path):
    """Root may own folders above the user's, and no others."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    os.chown(folder, 1, -1)
    monkeypatch.setattr(owned.os, "geteuid", lambda: 1)

    assert owned.doubt(folder) == ""
    assert owned.doubt(tmp_path) == f"{tmp_path} belongs to another user (0)"


@posix
def test_what_is_above_the_home(monkeypatch, tmp_path):
    """Nobody looks there: whoever can replace the home has won already."""
    home = tmp_path / "above" / "home"
    (home / "cache").mkdir(parents=True, mode=0o700)
    (tmp_path / "above").chmod(0o777)
    assert owned.doubt(home / "cache").startswith(f"{tmp_path / 'above'} may be")
    monkeypatch.setenv("HOME", str(home))
    assert owned.doubt(home / "cache") == ""
    home.chmod(0o775)
    assert owned.doubt(home / "cache").startswith(f"{home} may be")


def test_a_name_that_is_no_folder(named, tmp_path):
    """A file, and what cannot be made, is said; that of the user's usual place is not."""
    (tmp_path / "file").write_text("")

    assert named(tmp_path / "file") == (None, [f"WARPSIM_CACHE is not used: {tmp_path / 'file'} is not a folder"])
    assert named(tmp_path / "file" / "cache")[0] is None


@posix
def test_the_usual_folder_is_left_out_in_silence(monkeypatch, tmp_path):
    """Nobody has asked for it."""
    (tmp_path / "warpsim").mkdir()
    (tmp_path / "warpsim").chmod(0o777)
    monkeypatch.delenv("WARPSIM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(owned.sys, "platform", "linux")

    assert owned.cache_folder.__wrapped__() is None


# ---- files ---------------------------------------------------------------------------------------


def as_socket(path):
    """A socket in the place of a file."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)  # the whole path may be too long for one


IN_PLACE = {
    "missing": Path.unlink,
    "others may write": lambda path: path.chmod(0o602),
    "its group may write": lambda path: path.chmod(0o620),
    "too long": lambda path: path.write_bytes(bytes(101)),
    "huge": lambda path: os.truncate(path, 1 << 40),
    "a link": lambda path: (path.rename(path.with_name("other")), path.symlink_to("other")),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to(path.name)),
    "without end": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a socket": lambda path: (path.unlink(), as_socket(path)),
}
"""What may stand in the place of a file."""


@posix
@pytest.mark.parametrize("what", IN_PLACE)
def test_files_that_are_not_read(tmp_path, monkeypatch, what):
    """Each counts as none, at once."""
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o700)
    path = tmp_path / "file"
    owned.write(path, bytes(100))
    assert owned.read(path, 100) == bytes(100)
    IN_PLACE[what](path)

    assert owned.read(path, 100) is None


@posix
def test_files_of_others(tmp_path, give_away):
    """One counts as none, and so does one in a folder that others may write."""
    path = tmp_path / "file"
    owned.write(path, b"text")
    tmp_path.chmod(0o777)
    assert owned.read(path, 100) is None
    tmp_path.chmod(0o700)
    assert owned.read(path, 100) == b"text"
    give_away(path)
    assert owned.read(path, 100) is None


@posix
def test_no_room(tmp_path):
    """A file that is not written whole leaves nothing behind, and the one before stays."""
    import resource

    owned.write(tmp_path / "file", b"before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            owned.write(tmp_path / "file", bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"before"


def test_no_place(tmp_path, monkeypatch):
    """Nothing is left of a file that cannot come to its place."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(owned.os, "replace", full)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        owned.write(tmp_path / "file", b"text")

    assert list(tmp_path.iterdir()) == []


def test_what_killed_processes_have_left(tmp_path):
    """It goes after an hour; what is being written stays."""
    for name, old in (("part-a", True), ("part-b", False), ("other", True)):
        (tmp_path / name).write_text("")
        (tmp_path / f"{name}-folder").mkdir()
        (tmp_path / f"{name}-folder" / "file").write_text("")
        for path in (tmp_path / name, tmp_path / f"{name}-folder"):
            if old:
                os.utime(path, (0, 0))
    owned.sweep(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "other-folder", "part-b", "part-b-folder"]
